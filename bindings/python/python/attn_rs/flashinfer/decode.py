"""`flashinfer.decode`: one query of a request, or a few, over paged keys."""

from typing import Any

from ._bindings import TAIL, Cache, Maybe, Result, Tensor, bind, product, shown
from ._bindings import range_of as _get_range_buf  # noqa: F401
from ._tables import trtllm_batch_decode_with_kv_cache, xqa_batch_decode_with_kv_cache
from ._wrapper import PagedWrapper
from .mla import BatchDecodeMlaWithPagedKVCacheWrapper
from .page import get_seq_lens as get_seq_lens
from .prefill import single_prefill_with_kv_cache

__all__ = ["BatchDecodeMlaWithPagedKVCacheWrapper", "BatchDecodeWithPagedKVCacheWrapper",
    "CUDAGraphBatchDecodeWithPagedKVCacheWrapper", "fast_decode_plan", "single_decode_with_kv_cache",
    "trtllm_batch_decode_with_kv_cache", "xqa_batch_decode_with_kv_cache"]  # fmt: skip


_ONE = "q k v | kv_layout pos_encoding_mode use_tensor_cores q_scale k_scale v_scale window_left" + TAIL + " return_lse"


def _single_decode(*args: Any, **options: Any) -> Result:
    """Attention of one query, (heads, head dim); with `return_lse` also the log-sum-exps, in base 2."""
    given = bind(_ONE, args, options)
    given["k_scale"] = product(given.pop("q_scale", None), given.get("k_scale"))
    given.pop("use_tensor_cores", None)
    got = single_prefill_with_kv_cache(given.pop("q")[None], **given)
    return (got[0][0], got[1][0]) if isinstance(got, tuple) else got[0]


single_decode_with_kv_cache = shown(_ONE, _single_decode)


class BatchDecodeWithPagedKVCacheWrapper(PagedWrapper):
    """Decode of a batch over paged keys. In a wrapper for CUDA graphs the buffers bound what plans may have."""

    _buffer_names = "", "paged_kv_indptr_buffer", "paged_kv_indices_buffer", "paged_kv_last_page_len_buffer"
    _init = f"kv_layout use_cuda_graph use_tensor_cores {' '.join(_buffer_names[1:])} backend jit_args"
    _array_names = "", "indptr", "indices", "last_page_len"
    _plan = (
        "indptr indices last_page_len num_qo_heads num_kv_heads head_dim page_size | pos_encoding_mode window_left "
        "logits_soft_cap q_data_type kv_data_type o_data_type data_type sm_scale rope_scale rope_theta non_blocking "
        "block_tables seq_lens fixed_split_size disable_split_kv q_len_per_req window_right in_buffers indptr_host"
    )
    _forward = "q paged_kv_cache pos_encoding_mode q_scale k_scale v_scale window_left" + TAIL
    _q_len_per_req, _defaults = 0, {"q_data_type": "float16"}

    def _check(self, given: dict[str, Any]) -> None:
        queries = given.get("q_len_per_req", 1)
        if queries < 1 or (self._use_cuda_graph and self._q_len_per_req not in (0, queries)):
            rule = "q_len_per_req must be >= 1, and is frozen in a wrapper for CUDA graphs"
            raise ValueError(f"{rule}, got {queries}; it was {self._q_len_per_req}")
        given["causal"], self._q_len_per_req = queries > 1, queries

    def run(self, q: Tensor, paged_kv_cache: Cache, *args: Any, q_len_per_req: int | None = None, **how: Any) -> Result:
        """As `BatchPrefillWithPagedKVCacheWrapper.run`."""
        requests = len(self._paged_kv_last_page_len_buf)
        if q_len_per_req not in (None, self._q_len_per_req) or q.shape[0] != requests * self._q_len_per_req:
            planned = f"{requests} requests with q_len_per_req={self._q_len_per_req}"
            raise ValueError(f"q has {q.shape[0]} rows, q_len_per_req is {q_len_per_req}; the plan has {planned}")
        return super().run(q, paged_kv_cache, *args, **how)


class CUDAGraphBatchDecodeWithPagedKVCacheWrapper(BatchDecodeWithPagedKVCacheWrapper):
    """The wrapper with `use_cuda_graph`."""

    _buffer_names = "", "indptr_buffer", "indices_buffer", "last_page_len_buffer"
    _init = f"{' '.join(_buffer_names[1:])} kv_layout use_tensor_cores use_cuda_graph"

    def __init__(self, workspace_buffer: Tensor, *args: Any, **named: Any) -> None:
        super().__init__(workspace_buffer, *args, **named, use_cuda_graph=True)


def fast_decode_plan(self: BatchDecodeWithPagedKVCacheWrapper, *args: Any, global_override_indptr_cpu: Maybe = None,
        **options: Any) -> None:  # fmt: skip
    """`plan`, where the buffers of a wrapper for CUDA graphs hold the batch already: nothing is copied. Arguments are
    those of `plan`, without `o_data_type`."""
    args = (*args[:12], None, *args[12:]) if len(args) > 12 else args
    options = {"q_data_type": None, **options} if len(args) < 11 else options
    how = {"in_buffers": True, "indptr_host": global_override_indptr_cpu}
    type(self).begin_forward(self, *args, **how, **options)
