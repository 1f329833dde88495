"""`flashinfer.attention`: the wrapper of any batch, and attention sinks over pages."""

import inspect
from typing import Any

import torch

from ._bindings import Cache, Options, Tensor, refuse_given
from ._wrapper import PagedWrapper, Result
from .prefill import BatchPrefillWithPagedKVCacheWrapper

__all__ = ["BatchAttention", "BatchAttentionWithAttentionSinkWrapper"]


class BatchAttention(PagedWrapper):
    """A batch of queries of any number over paged keys."""

    def __init__(self, kv_layout: str = "NHD", device: str = "cuda") -> None:
        super().__init__(torch.empty(0, device=device), kv_layout, False, (None, None, None, None), "auto")

    def plan(
        self, qo_indptr: Tensor, kv_indptr: Tensor, kv_indices: Tensor, kv_len_arr: Tensor, num_qo_heads: int,
        num_kv_heads: int, head_dim_qk: int, head_dim_vo: int, page_size: int, causal: bool = False,
        sm_scale: float | None = None, logits_soft_cap: float | None = None,
        q_data_type: torch.dtype = torch.bfloat16, kv_data_type: torch.dtype = torch.bfloat16,
        use_profiler: bool = False,
    ) -> None:  # fmt: skip
        """Plans a batch. On a CUDA device it reads the arrays on the host, and waits for them."""
        refuse_given("a profiler of CUDA shows launches", use_profiler=use_profiler)
        options, heads = Options(causal, -1, logits_soft_cap, sm_scale=sm_scale), (num_qo_heads, num_kv_heads)
        self._keep((*heads, head_dim_qk, head_dim_vo), options, (q_data_type, kv_data_type, None))
        self._plan_pages((qo_indptr, kv_indptr, kv_indices, kv_len_arr), page_size, are_lens=True)

    def run(  # type: ignore[override]
        self, q: Tensor, kv_cache: Cache, *args: Any, logits_soft_cap: float = 0.0, profiler_buffer: Any = None,
        **how: Any,
    ) -> Result:  # fmt: skip
        """Launches, and returns log-sum-exps too. `args` are `out`, `lse`, `k_scale` and `v_scale`, also by name; the
        soft cap is that of `plan`."""
        refuse_given("a profiler of CUDA shows launches", profiler_buffer=profiler_buffer)
        if logits_soft_cap not in (0.0, self._logits_soft_cap):
            raise ValueError(f"logits_soft_cap is {logits_soft_cap} in run and {self._logits_soft_cap} in plan")
        how |= dict(zip(("out", "lse", "k_scale", "v_scale"), args, strict=False))
        return super().run(q, kv_cache, return_lse=True, **how)


class BatchAttentionWithAttentionSinkWrapper(BatchPrefillWithPagedKVCacheWrapper):
    """Prefill and decode with a sink, whose logits `run` takes behind the cache: `run(q, cache, sink, sm_scale)`. The
    arguments behind `backend` choose a C++ module, and are without effect."""

    _has_sink = True

    def __init__(self, float_workspace_buffer: Tensor, *buffers: Any, **how: Any) -> None:
        known = inspect.signature(super().__init__).parameters
        own = {name: value for name, value in how.items() if name in known}
        super().__init__(float_workspace_buffer, *buffers[:9], **own)
