"""`flashinfer.decode`: one query of a request, or a few, over paged keys.

Without effect are the workspaces, `backend`, `use_tensor_cores` (kernels are chosen by their costs), `non_blocking`,
`enable_pdl`, `block_tables` and `seq_lens`.
"""

import functools
from typing import Any

import torch

from ._bindings import TAIL, Cache, Dtype, Maybe, Number, Options, Tensor, product, refuse_given
from ._wrapper import PagedWrapper, Result
from .page import get_seq_lens as get_seq_lens
from .xqa import xqa_batch_decode_with_kv_cache
from .prefill import single_prefill_with_kv_cache

__all__ = [
    "BatchDecodeWithPagedKVCacheWrapper", "CUDAGraphBatchDecodeWithPagedKVCacheWrapper", "fast_decode_plan",
    "single_decode_with_kv_cache", "xqa_batch_decode_with_kv_cache",
]  # fmt: skip


@functools.cache
def _get_range_buf(seq_len: int, device: torch.device | str) -> Tensor:
    return torch.arange(seq_len, device=device, dtype=torch.int32)


def single_decode_with_kv_cache(
    q: Tensor, k: Tensor, v: Tensor, kv_layout: str = "NHD", pos_encoding_mode: str = "NONE",
    use_tensor_cores: bool = False, q_scale: Number | None = None, k_scale: Number | None = None,
    v_scale: Number | None = None, window_left: int = -1, logits_soft_cap: float | None = None,
    sm_scale: float | None = None, rope_scale: float | None = None, rope_theta: float | None = None,
    return_lse: bool = False,
) -> Result:  # fmt: skip
    """Attention of one query, (heads, head dim); with `return_lse` also the log-sum-exps, in base 2."""
    options = window_left, logits_soft_cap, rope_scale, rope_theta, "auto", return_lse, None
    got = single_prefill_with_kv_cache(
        q[None], k, v, None, None, None, None, None, None, False, kv_layout, pos_encoding_mode, False, sm_scale,
        *options, k_scale=product(q_scale, k_scale), v_scale=v_scale,
    )  # fmt: skip
    return (got[0][0], got[1][0]) if isinstance(got, tuple) else got[0]


class BatchDecodeWithPagedKVCacheWrapper(PagedWrapper):
    """Decode of a batch over paged keys. In a wrapper for CUDA graphs the buffers bound what plans may have."""

    _forward = "q paged_kv_cache pos_encoding_mode q_scale k_scale v_scale window_left" + TAIL

    def __init__(
        self, float_workspace_buffer: Tensor, kv_layout: str = "NHD", use_cuda_graph: bool = False,
        use_tensor_cores: bool = False, paged_kv_indptr_buffer: Maybe = None, paged_kv_indices_buffer: Maybe = None,
        paged_kv_last_page_len_buffer: Maybe = None, backend: str = "auto", jit_args: list[Any] | None = None,
    ) -> None:  # fmt: skip
        buffers = None, paged_kv_indptr_buffer, paged_kv_indices_buffer, paged_kv_last_page_len_buffer
        super().__init__(float_workspace_buffer, kv_layout, use_cuda_graph, buffers, backend, jit_args)
        self._use_tensor_cores, self._q_len_per_req = use_tensor_cores, 0

    use_tensor_cores = property(lambda self: self._use_tensor_cores)

    def plan(
        self, indptr: Tensor, indices: Tensor, last_page_len: Tensor, num_qo_heads: int, num_kv_heads: int,
        head_dim: int, page_size: int, pos_encoding_mode: str = "NONE", window_left: int = -1,
        logits_soft_cap: float | None = None, q_data_type: Dtype | None = "float16", kv_data_type: Dtype | None = None,
        o_data_type: Dtype | None = None, data_type: Dtype | None = None, sm_scale: float | None = None,
        rope_scale: float | None = None, rope_theta: float | None = None, non_blocking: bool = True,
        block_tables: Maybe = None, seq_lens: Maybe = None, fixed_split_size: int | None = None,
        disable_split_kv: bool = False, q_len_per_req: int = 1, window_right: int = 0, **buffers: Any,
    ) -> None:  # fmt: skip
        """Plans a batch of `q_len_per_req` queries a request. On a CUDA device it reads the arrays on the host, and
        waits for them, unless the wrapper is for CUDA graphs and its plan is made on the device."""
        refuse_given("keys behind a query are not seen in decode", window_right=window_right or None)
        if q_len_per_req < 1 or (self._use_cuda_graph and self._q_len_per_req not in (0, q_len_per_req)):
            frozen = f", which has {self._q_len_per_req}" if self._q_len_per_req else ""
            rule = "q_len_per_req must be >= 1, and stay the same in a wrapper for CUDA graphs"
            raise ValueError(f"{rule}{frozen}, got {q_len_per_req}")
        causal = q_len_per_req > 1
        options = Options(causal, window_left, logits_soft_cap, pos_encoding_mode, sm_scale, rope_scale, rope_theta)
        dtypes = q_data_type or data_type, kv_data_type or data_type, o_data_type
        split = fixed_split_size, disable_split_kv, page_size
        self._keep((num_qo_heads, num_kv_heads, head_dim, head_dim), options, dtypes, split)
        self._q_len_per_req = q_len_per_req
        # a batch that is planned on the host is read there
        device = self.device if self._use_cuda_graph else "cpu"
        qo = _get_range_buf(len(last_page_len) + 1, device) * q_len_per_req
        self._plan_pages((qo, indptr, indices, last_page_len), page_size, **buffers)

    def run(self, q: Tensor, paged_kv_cache: Cache, *args: Any, q_len_per_req: int | None = None, **how: Any) -> Result:
        """As `BatchPrefillWithPagedKVCacheWrapper.run`."""
        requests = len(self._paged_kv_last_page_len_buf)
        if q_len_per_req not in (None, self._q_len_per_req) or q.shape[0] != requests * self._q_len_per_req:
            planned = f"{requests} requests with q_len_per_req={self._q_len_per_req}"
            raise ValueError(f"q has {q.shape[0]} rows, q_len_per_req is {q_len_per_req}; the plan has {planned}")
        return super().run(q, paged_kv_cache, *args, **how)


class CUDAGraphBatchDecodeWithPagedKVCacheWrapper(BatchDecodeWithPagedKVCacheWrapper):
    """The wrapper with `use_cuda_graph`."""

    def __init__(
        self, workspace_buffer: Tensor, indptr_buffer: Tensor, indices_buffer: Tensor, last_page_len_buffer: Tensor,
        kv_layout: str = "NHD", use_tensor_cores: bool = False,
    ) -> None:  # fmt: skip
        buffers = indptr_buffer, indices_buffer, last_page_len_buffer
        super().__init__(workspace_buffer, kv_layout, True, use_tensor_cores, *buffers)


def fast_decode_plan(
    self: BatchDecodeWithPagedKVCacheWrapper, *args: Any, global_override_indptr_cpu: Maybe = None, **options: Any
) -> None:
    """`plan`, where the buffers of a wrapper for CUDA graphs hold the batch already: nothing is copied. Arguments are
    those of `plan`, without `o_data_type`."""
    args = (*args[:12], None, *args[12:]) if len(args) > 12 else args
    options = {"q_data_type": None, **options} if len(args) < 11 else options
    how = {"in_buffers": True, "indptr_host": global_override_indptr_cpu}
    type(self).begin_forward(self, *args, **how, **options)
