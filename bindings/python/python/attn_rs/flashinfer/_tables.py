"""Attention without a plan, over block tables, (requests, pages), and numbers of keys, (requests): by
`attn_rs.paged_attention`, which plans on the device where the kernel can, so that CUDA graphs can capture calls."""

from typing import Any

import torch

from .._paged import paged_attention
from ._bindings import LOG2E, Cache, Dtype, Maybe, Number, Options, Result, Tensor, bind, expression, nvfp4_of, q_type
from ._bindings import refuse, store, unpack
from .utils import FP4Tensor, canonicalize_torch_dtype

# arguments by name that are refused, or without effect
_OTHERS = (
    "bf16q_fp8kv_transform_mode causal_seqlens_kv_global cp_rank cp_world cute_dsl_impl enable_block_sparse_attention "
    "enable_dcp is_var_seq kv_scale_format max_q_len multi_ctas_kv_counter_buffer skip_softmax_threshold_scale_factor "
    "sparse_mla_top_k_lens use_fp16_softmax uses_shared_paged_kv_idx uses_spcompress")  # fmt: skip


def _attend(query: Tensor, k: Tensor, v: Maybe, arrays: tuple[Tensor, Tensor, Maybe], options: Options,
        dtype: torch.dtype, out: Maybe, *, sinks: Any = None, part: str | None = None,
        params: dict[str, Any] | None = None, **how: Any) -> tuple[Tensor, Maybe]:  # fmt: skip
    """`arrays`: the block table, the numbers of keys, and `qo_indptr` unless requests have as many queries."""
    variant = expression(options, part, () if sinks is None else ("sink",))
    if sinks is not None:
        params = {**(params or {}), "sink.logits": sinks[0] if isinstance(sinks, (list, tuple)) else sinks}
    q = query.to(q_type(query.dtype, dtype))
    tables, lens, qo = (None if x is None else x.to(q.device, torch.int32).contiguous() for x in arrays)
    own = out if out is not None and out.dtype == q.dtype else None
    how |= {"params": params, "qo_indptr": qo, "scale": 1.0, "out": own}
    got = paged_attention(q, k, v, tables, lens, variant, **how)
    o, lse = got if isinstance(got, tuple) else (got, None)
    return store(o, out, dtype), lse


def trtllm_batch_decode_with_kv_cache(query: Tensor, kv_cache: Cache, workspace_buffer: Tensor, block_tables: Tensor,
        seq_lens: Tensor, max_seq_len: int, bmm1_scale: Number = 1.0, bmm2_scale: Number = 1.0, window_left: int = -1,
        out: Maybe = None, out_dtype: Dtype | None = None, o_sf_scale: float | None = None,
        o_sf_vec_size: int | None = None, sinks: Any = None, kv_layout: str = "HND", enable_pdl: bool | None = None,
        backend: str = "auto", q_len_per_req: int | None = 1, o_scale: float | None = 1.0, mask: Maybe = None, *,
        cum_seq_lens_q: Maybe = None, kv_cache_sf: Cache | None = None, lse: Maybe = None, return_lse: bool = False,
        bmm1_scale_log2: Maybe = None, causal: bool = True, **others: Any) -> Result:  # fmt: skip
    """Decode, causal over the queries of a request, (tokens, heads, head dim). Logits are products times `bmm1_scale`,
    outputs come times `bmm2_scale`. `mask` has bits of drafts, a row for each query over those of its request."""
    bind(_OTHERS, (), others)
    if out_dtype == "nvfp4" or isinstance(out, FP4Tensor) or o_sf_scale or o_sf_vec_size:
        refuse("an output of nvfp4", "quantise one of 16 bits")
    if kv_cache_sf is not None and backend == "trtllm-gen":
        refuse("`kv_cache_sf` in the order of trtllm-gen", "give scales in the order of elements, and another backend")
    if cum_seq_lens_q is None and len(query) != len(seq_lens) * (q_len_per_req or 1):
        raise ValueError(f"q has {len(query)} rows, of {len(seq_lens)} requests of q_len_per_req={q_len_per_req}")
    how: dict[str, Any] = {"kv_layout": kv_layout, "k_scale": bmm1_scale, "v_scale": bmm2_scale, "sinks": sinks}
    if bmm1_scale_log2 is not None:
        how["k_scale"] = bmm1_scale_log2 / LOG2E
    if mask is not None:
        bits = mask.reshape(len(query), -1).contiguous().view(torch.uint8)[..., None]
        seen = ((bits >> torch.arange(8, device=bits.device, dtype=torch.uint8)) & 1).flatten(1).bool()
        how |= {"part": f"tree(width={seen.shape[1]})", "params": {"tree.ancestors": seen.tolist()}}
    k, v = unpack(kv_cache, kv_layout)
    if k.dtype == torch.uint8:
        k, v, how["k_side"], how["v_side"] = nvfp4_of(k, v, kv_cache_sf and unpack(kv_cache_sf, kv_layout))
        how |= {"kv_format": "nvfp4", "value_dim": 2 * v.shape[3]}
    dtype = canonicalize_torch_dtype(out.dtype if out is not None else out_dtype or query.dtype)
    arrays, options = (block_tables, seq_lens.reshape(-1), cum_seq_lens_q), Options(causal, window_left)
    how |= {"lse": lse, "lse_base": 2, "return_lse": return_lse}
    o, states = _attend(query, k, v, arrays, options, dtype, out, **how)
    return (o, states) if return_lse and states is not None else o


def xqa_batch_decode_with_kv_cache(query: Tensor, *args: Any, **options: Any) -> Result:
    """As `trtllm_batch_decode_with_kv_cache`, in `"NHD"` by default; queries of FP8 have outputs of bfloat16."""
    order = ("kv_cache workspace_buffer block_tables seq_lens max_seq_len | bmm1_scale bmm2_scale window_left out "
        "sinks kv_layout enable_pdl q_len_per_req o_scale mask kv_cache_sf q_cu_seq_lens")  # fmt: skip
    given = {"kv_layout": "NHD", **bind(order, args, {**options, "o_scale": None})}
    given["cum_seq_lens_q"] = given.pop("q_cu_seq_lens", None)
    dtype = torch.bfloat16 if query.element_size() == 1 else query.dtype
    return trtllm_batch_decode_with_kv_cache(query, out_dtype=dtype, **given)


def trtllm_batch_context_with_kv_cache(query: Tensor, kv_cache: Cache, workspace_buffer: Tensor, block_tables: Tensor,
        seq_lens: Tensor, max_q_len: int, max_kv_len: int, bmm1_scale: Number, bmm2_scale: Number, batch_size: int,
        cum_seq_lens_q: Tensor, cum_seq_lens_kv: Tensor, window_left: int = -1, out: Maybe = None,
        out_dtype: Dtype | None = None, **how: Any) -> Result:  # fmt: skip
    """Prefill: as `trtllm_batch_decode_with_kv_cache`, with `cum_seq_lens_q` of (requests + 1), causal or not."""
    arrays, scales = (block_tables, seq_lens, max_kv_len), (bmm1_scale, bmm2_scale, window_left)
    own = {"cum_seq_lens_q": cum_seq_lens_q, "backend": "trtllm-gen", **how}
    return trtllm_batch_decode_with_kv_cache(query, kv_cache, workspace_buffer, *arrays, *scales, out, out_dtype, **own)


def trtllm_batch_decode_with_kv_cache_mla(query: Tensor, kv_cache: Tensor, workspace_buffer: Tensor,
        qk_nope_head_dim: int, kv_lora_rank: int, qk_rope_head_dim: int, block_tables: Tensor, seq_lens: Tensor,
        max_seq_len: int, sparse_mla_top_k: int = 0, out: Maybe = None, bmm1_scale: Number = 1.0,
        bmm2_scale: Number = 1.0, sinks: Any = None, *, enable_pdl: bool | None = None, backend: str = "auto",
        lse: Maybe = None, return_lse: bool = False, cum_seq_lens_q: Maybe = None,
        **others: Any) -> Result:  # fmt: skip
    """Decode of latent attention: `query` is (requests, queries, heads, dim), or (tokens, heads, dim) beside
    `cum_seq_lens_q`, and `kv_cache` (pages, slots, dim) or (pages, 1, slots, dim), of which the first `kv_lora_rank`
    elements are values. Outputs are of bfloat16; log-sum-exps, (tokens, heads) or as `lse`, are natural."""
    bind(_OTHERS + " sparse_mla_top_k", (), {**others, "sparse_mla_top_k": sparse_mla_top_k})
    rows, pool = query.flatten(0, -3), kv_cache.squeeze(1) if kv_cache.dim() == 4 else kv_cache
    o = query.new_empty((*query.shape[:-1], kv_lora_rank), dtype=torch.bfloat16) if out is None else out
    lse = rows.new_empty(rows.shape[:2], dtype=torch.float32) if lse is None and return_lse else lse
    how: Any = {"kv_layout": "latent", "value_dim": kv_lora_rank, "k_scale": bmm1_scale, "v_scale": bmm2_scale}
    own, flat = None if lse is None else lse.view(rows.shape[:2]), o.view(*rows.shape[:2], kv_lora_rank)
    arrays = block_tables, seq_lens, cum_seq_lens_q
    _attend(rows, pool[:, :, None], None, arrays, Options(True), o.dtype, flat, sinks=sinks, lse=own, **how)
    return (o, lse) if return_lse and lse is not None else o
