"""`flashinfer.prefill`: queries of any number over ragged or paged keys."""

import functools
from typing import Any

import torch

from ._bindings import TAIL, Cache, Options, Result, Tensor, bind, host, mask_of, options_of, packed
from ._bindings import refuse_given, shown
from ._tables import trtllm_batch_context_with_kv_cache
from ._wrapper import PagedWrapper, Wrapper

__all__ = ["BatchAttention", "BatchAttentionWithAttentionSinkWrapper", "BatchPrefillWithPagedKVCacheWrapper",
    "BatchPrefillWithRaggedKVCacheWrapper", "single_prefill_with_kv_cache", "single_prefill_with_kv_cache_return_lse",
    "trtllm_batch_context_with_kv_cache"]  # fmt: skip

_MASKS_AND_BACKEND = " custom_mask_buf mask_indptr_buf backend jit_args jit_kwargs"
_TYPES_AND_ITEMS = (
    "q_data_type kv_data_type o_data_type non_blocking prefix_len_ptr token_pos_in_items_ptr token_pos_in_items_len "
    "max_item_len_ptr")  # fmt: skip


class BatchPrefillWithPagedKVCacheWrapper(PagedWrapper):
    """A batch over paged keys. In a wrapper for CUDA graphs the buffers bound what plans may have."""

    _buffer_names = "qo_indptr_buf", "paged_kv_indptr_buf", "paged_kv_indices_buf", "paged_kv_last_page_len_buf"
    _array_names = "qo_indptr", "paged_kv_indptr", "paged_kv_indices", "paged_kv_last_page_len"
    _init = "kv_layout use_cuda_graph " + " ".join(_buffer_names) + _MASKS_AND_BACKEND
    _plan = (f"{' '.join(_array_names)} num_qo_heads num_kv_heads head_dim_qk page_size | head_dim_vo custom_mask "
        "packed_custom_mask causal pos_encoding_mode use_fp16_qk_reduction sm_scale window_left logits_soft_cap "
        f"rope_scale rope_theta {_TYPES_AND_ITEMS} seq_lens seq_lens_q block_tables max_token_per_sequence "
        "max_sequence_kv fixed_split_size disable_split_kv")  # fmt: skip
    _forward = "q paged_kv_cache causal pos_encoding_mode use_fp16_qk_reduction k_scale v_scale window_left" + TAIL


class BatchPrefillWithRaggedKVCacheWrapper(Wrapper):
    """A batch over keys one request after the other. For CUDA graphs the first batch bounds queries and keys."""

    _init = "kv_layout use_cuda_graph qo_indptr_buf kv_indptr_buf" + _MASKS_AND_BACKEND
    _plan = (
        "qo_indptr kv_indptr num_qo_heads num_kv_heads head_dim_qk | head_dim_vo custom_mask packed_custom_mask causal "
        "pos_encoding_mode use_fp16_qk_reduction window_left logits_soft_cap sm_scale rope_scale rope_theta "
        f"{_TYPES_AND_ITEMS} fixed_split_size disable_split_kv seq_lens seq_lens_q max_token_per_sequence "
        "max_sequence_kv v_indptr o_indptr")  # fmt: skip
    _forward = "q k v causal pos_encoding_mode use_fp16_qk_reduction window_left" + TAIL
    _buffer_names, _layout = ("qo_indptr_buf", "kv_indptr_buf"), "NHD"
    _kv_indptr_buf = property(lambda self: self._buffers[1])

    def plan(self, *args: Any, **named: Any) -> None:
        """Plans a batch: prefix sums of queries and of keys, (requests + 1), sizes, and options."""
        given = bind(self._plan, args, named)
        dim = given["head_dim_qk"]
        self._keep(given, given["num_qo_heads"], given["num_kv_heads"], dim, given.get("head_dim_vo") or dim)
        self._ragged = qo, kv = host(given["qo_indptr"]), host(given["kv_indptr"])
        if len(qo) != len(kv):
            raise ValueError("The kv_indptr length should be equal to qo_indptr length.")
        self._check_requests(len(qo) - 1)
        self._most = self._most if self._most[0] >= 0 else (int(qo[-1]), int(kv[-1]))
        self._new_batch(*mask_of(self._masks, qo, kv.diff()))

    def run(self, q: Tensor, k: Tensor, v: Tensor, *args: Any, kv_cache_sf: Cache | None = None, **how: Any) -> Result:
        """Launches, with the arguments of the wrapper of pages."""
        kept = how.get("out"), how.get("lse"), how.get("return_lse", False), kv_cache_sf, *args
        if how.keys() <= {"out", "lse", "return_lse"} and (got := self._last.again(q, (k, v), *kept)) is not None:
            return got
        how.pop("enable_pdl", None)
        refuse_given({"o_scale": how.pop("o_scale", None) not in (None, 1.0)})
        sides = None if kv_cache_sf is None else (kv_cache_sf[0], kv_cache_sf[1])
        return self._launch(q, k, v, args, sides=sides, **how)


class BatchAttention(PagedWrapper):
    """A batch of queries of any number over paged keys."""

    _init, _are_lens, _defaults = "kv_layout", True, {"q_data_type": "bfloat16", "kv_data_type": "bfloat16"}
    _array_names = "qo_indptr", "kv_indptr", "kv_indices", "kv_len_arr"
    _plan = (f"{' '.join(_array_names)} num_qo_heads num_kv_heads head_dim_qk head_dim_vo page_size | causal sm_scale "
        "logits_soft_cap q_data_type kv_data_type use_profiler")  # fmt: skip

    def __init__(self, kv_layout: str = "NHD", device: str = "cuda") -> None:
        super().__init__(torch.empty(0, device=device), kv_layout)

    def run(self, q: Tensor, kv_cache: Cache, *args: Any,  # type: ignore[override]
            logits_soft_cap: float = 0.0, **how: Any) -> Result:  # fmt: skip
        """Launches, and returns log-sum-exps too. `args` are `out`, `lse`, `k_scale` and `v_scale`, also by name."""
        refuse_given(how)
        how.pop("profiler_buffer", None)
        if logits_soft_cap not in (0.0, self._logits_soft_cap):
            raise ValueError(f"logits_soft_cap is {logits_soft_cap} in run and {self._logits_soft_cap} in plan")
        how |= dict(zip(("out", "lse", "k_scale", "v_scale"), args, strict=False))
        return super().run(q, kv_cache, return_lse=True, **how)


class BatchAttentionWithAttentionSinkWrapper(BatchPrefillWithPagedKVCacheWrapper):
    """Prefill and decode with a sink, whose logits `run` takes behind the cache: `run(q, cache, sink, sm_scale)`. The
    arguments behind `backend` choose a C++ module, and are without effect."""

    _has_sink = True
    _init = BatchPrefillWithPagedKVCacheWrapper._init.replace("jit_args jit_kwargs", "pos_encoding_mode "
        "use_fp16_qk_reduction q_data_type kv_data_type head_dim_qk head_dim_vo window_left")  # fmt: skip


@functools.lru_cache(maxsize=64)
def _of_one_request(device: torch.device, lens: tuple[int, int], heads: tuple[int, ...], options: Options,
        dtypes: tuple[torch.dtype, ...], bits: bytes | None) -> BatchPrefillWithRaggedKVCacheWrapper:  # fmt: skip
    wrapper, types = BatchPrefillWithRaggedKVCacheWrapper(torch.empty(0, device=device)), _TYPES_AND_ITEMS.split()[:3]
    mask = None if not bits else torch.frombuffer(bytearray(bits), dtype=torch.uint8)
    how = {**options._asdict(), **dict(zip(types, dtypes, strict=True)), "packed_custom_mask": mask}
    wrapper.begin_forward([0, lens[0]], [0, lens[1]], *heads, **how)
    return wrapper


_ONE = ("q k v | scale_q scale_k scale_v o_dtype custom_mask packed_custom_mask causal kv_layout pos_encoding_mode "
    "use_fp16_qk_reduction sm_scale window_left logits_soft_cap rope_scale rope_theta backend return_lse kv_cache_sf "
    "k_scale v_scale")  # fmt: skip


@shown(_ONE)
def single_prefill_with_kv_cache(*args: Any, **options: Any) -> Result:
    """Attention of one request: (queries, heads, head dim), and keys and values as `kv_layout` says. The plans of the
    last 64 shapes, options and masks are kept. With `return_lse` also the log-sum-exps, in base 2."""
    given = bind(_ONE, args, options)
    (q, k, v), sides = (given[name] for name in "qkv"), given.get("kv_cache_sf")
    if given.get("kv_layout") == "HND":
        k, v = k.transpose(0, 1), v.transpose(0, 1)
        sides = sides and (sides[0].transpose(0, 1), sides[1].transpose(0, 1))
    (n, *of_q), (m, *of_k) = q.shape, k.shape
    heads = of_q[0], of_k[0], of_q[1], v.shape[2] * (2 if v.dtype == torch.uint8 else 1)
    dtypes = q.dtype, k.dtype, given.get("o_dtype") or (torch.float16 if q.element_size() == 1 else q.dtype)
    mask = packed(given, torch.tensor([n * m]))
    bits = None if mask is None else bytes(mask[0].numpy())
    wrapper = _of_one_request(q.device, (n, m), heads, options_of(given), dtypes, bits)
    scales = [given.get(name) for name in ("scale_q", "scale_k", "scale_v")]
    how = {name: given[name] for name in ("k_scale", "v_scale", "return_lse") if name in given}
    return wrapper.run(q, k, v, *([] if scales == [None] * 3 else scales), kv_cache_sf=sides, **how)


single_prefill_with_kv_cache_return_lse = functools.partial(single_prefill_with_kv_cache, return_lse=True)
