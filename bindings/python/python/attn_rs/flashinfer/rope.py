"""`flashinfer.rope`: queries and keys, (tokens, heads, head dim), rotated by positions by `attn_rs.ops.rotate`, into
new memory. What `inplace` rotates is copied back, a pass more."""

from collections.abc import Callable
from typing import Any

import torch

from ..ops import rotate
from ._bindings import Maybe, Tensor, bind, store
from .page import append_paged_kv_cache, append_paged_mla_kv_cache

__all__ = ["apply_llama31_rope", "apply_llama31_rope_inplace", "apply_llama31_rope_pos_ids",
    "apply_llama31_rope_pos_ids_inplace", "apply_rope", "apply_rope_inplace", "apply_rope_pos_ids",
    "apply_rope_pos_ids_inplace", "apply_rope_with_cos_sin_cache", "apply_rope_with_cos_sin_cache_inplace",
    "mla_rope_quantize_fp8", "rope_quantize_fp8", "rope_quantize_fp8_append_paged_kv_cache"]  # fmt: skip

Pair = tuple[Tensor, Tensor]


def _in_place(rotated: Callable[..., Pair]) -> Callable[..., None]:
    def call(q: Tensor, k: Tensor, *args: Any, **options: Any) -> None:
        for x, new in zip((q, k), rotated(q, k, *args, **options), strict=True):
            x.copy_(new)

    return call


def _rotations(part: str, numbers: dict[str, tuple[str, float]]) -> tuple[Callable[..., Any], ...]:
    """The functions of a rotation by the positions of tokens, and by those of the first tokens of requests, each into
    new memory and in place. `numbers` are FlashInfer's arguments, their names in attn_rs and defaults."""

    def by_pos_ids(q: Tensor, k: Tensor, pos_ids: Tensor, *args: Any, **options: Any) -> Pair:
        given = bind("rotary_dim interleave " + " ".join(numbers), args, options)
        words = [f"{own}={type(default)(given.get(name, default))!r}" for name, (own, default) in numbers.items()]
        words.append(f"interleaved={str(bool(given.get('interleave'))).lower()}")
        how = pos_ids.int().contiguous(), f"{part}({', '.join(words)})"
        return rotate(q, *how, dim=given.get("rotary_dim")), rotate(k, *how, dim=given.get("rotary_dim"))

    def by_requests(q: Tensor, k: Tensor, indptr: Tensor, offsets: Tensor, *args: Any, **options: Any) -> Pair:
        counts, at = indptr.diff().long(), torch.arange(len(q), device=indptr.device)
        which = torch.repeat_interleave(torch.arange(len(counts), device=indptr.device), counts, output_size=len(q))
        return by_pos_ids(q, k, at - indptr[which] + offsets[which], *args, **options)

    return by_pos_ids, _in_place(by_pos_ids), by_requests, _in_place(by_requests)


apply_rope_pos_ids, apply_rope_pos_ids_inplace, apply_rope, apply_rope_inplace = _rotations(
    "rope", {"rope_scale": ("scale", 1.0), "rope_theta": ("theta", 1e4)}
)
_LLAMA = {"rope_scale": ("factor", 8.0), "rope_theta": ("theta", 5e5), "low_freq_factor": ("low_freq_factor", 1.0)}
_LLAMA |= {"high_freq_factor": ("high_freq_factor", 4.0), "old_context_len": ("original_len", 8192)}
(
    apply_llama31_rope_pos_ids, apply_llama31_rope_pos_ids_inplace, apply_llama31_rope, apply_llama31_rope_inplace,
) = _rotations("llama3_rope", _LLAMA)  # fmt: skip


def _by_table(x: Tensor, positions: Tensor, table: Tensor, is_neox: bool) -> Any:
    if table.dtype != torch.float32:
        raise ValueError("cos_sin_cache should be float32")
    return rotate(x, positions.int().contiguous(), cos_sin=table, interleaved=not is_neox)


def apply_rope_with_cos_sin_cache(positions: Tensor, query: Tensor, key: Tensor, head_size: int, cos_sin_cache: Tensor,
        is_neox: bool = True) -> Pair:  # fmt: skip
    """Rotates by a table, (positions, rotary dim), of cosines and then sines, in float32. Rows are (tokens, heads *
    head size). A table's values are copied where it is another tensor than in the last call, or has changed."""
    rows = (x.reshape(x.shape[0], -1, head_size) for x in (query, key))
    q, k = (_by_table(x, positions, cos_sin_cache, is_neox) for x in rows)
    return q.reshape(query.shape), k.reshape(key.shape)


def apply_rope_with_cos_sin_cache_inplace(positions: Tensor, query: Tensor, key: Tensor, *by: Any, **how: Any) -> None:
    q, k = apply_rope_with_cos_sin_cache(positions, query, key, *by, **how)
    query.copy_(q)
    key.copy_(k)


def rope_quantize_fp8(q_rope: Tensor, k_rope: Tensor, q_nope: Maybe, k_nope: Maybe, cos_sin_cache: Tensor,
        pos_ids: Tensor, is_neox: bool = True, quantize_dtype: torch.dtype | None = None, quant_scale_q: float = 1.0,
        quant_scale_kv: float = 1.0, q_rope_out: Maybe = None, k_rope_out: Maybe = None, q_nope_out: Maybe = None,
        k_nope_out: Maybe = None, enable_pdl: bool = False,
        backend: str = "cuda") -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Rotates the rotary parts, and rounds all parts times their scales to FP8: passes of torch over them."""
    outs = q_rope_out, k_rope_out, q_nope_out, k_nope_out
    dtype = quantize_dtype or next((out.dtype for out in outs if out is not None), torch.float8_e4m3fn)
    rows = (x if x.dim() == 3 else x[:, None] for x in (q_rope.float(), k_rope.float()))
    q, k = (_by_table(x, pos_ids, cos_sin_cache, is_neox) for x in rows)
    rests = (of[..., :0] if x is None else x for of, x in ((q_rope, q_nope), (k_rope, k_nope)))
    parts = zip((q, k.reshape(k_rope.shape), *rests), outs, (quant_scale_q, quant_scale_kv) * 2, strict=True)
    a, b, c, d = (store(x.float() * scale, out, dtype) for x, out, scale in parts)
    return a, b, c, d


mla_rope_quantize_fp8 = rope_quantize_fp8


def rope_quantize_fp8_append_paged_kv_cache(q_rope: Tensor, k_rope: Tensor, q_nope: Maybe, k_nope: Maybe, v: Maybe,
        cos_sin_cache: Tensor, pos_ids: Tensor, paged_kv_cache: tuple[Tensor, Tensor], kv_indices: Tensor,
        kv_indptr: Tensor, batch_indices: Tensor, positions: Tensor, *args: Any, **options: Any) -> Pair:  # fmt: skip
    """`rope_quantize_fp8`, and an append of keys and values; keys of two dimensions are those of MLA."""
    if (v is None) != (k_rope.dim() == 2):
        raise ValueError("v is given for GQA and MHA, and None for MLA, whose keys have two dimensions")
    order = "is_neox quantize_dtype quant_scale_q quant_scale_kv page_size kv_layout q_rope_out q_nope_out enable_pdl"
    how = bind(order, args, options)
    kv_layout, _ = how.pop("kv_layout", "NHD"), how.pop("page_size", None)
    q, k, q_rest, k_rest = rope_quantize_fp8(q_rope, k_rope, q_nope, k_nope, cos_sin_cache, pos_ids, **how)
    places, pages = (batch_indices, positions), (kv_indices, kv_indptr, kv_indptr)
    if v is None:
        append_paged_mla_kv_cache(k_rest, k, *places, *paged_kv_cache, *pages)
    else:
        keys = torch.cat([k.view(torch.uint8), k_rest.view(torch.uint8)], -1).view(k.dtype)
        values = store(v.float() * how.get("quant_scale_kv", 1.0), None, k.dtype)
        append_paged_kv_cache(keys, values, *places, paged_kv_cache, *pages, kv_layout)
    return q, q_rest
