"""`flashinfer.attention`: the wrapper of any batch, and attention sinks over pages."""

from typing import Any

import torch

from ._bindings import Cache, Result, Tensor, refuse_given
from ._wrapper import PagedWrapper
from .prefill import BatchPrefillWithPagedKVCacheWrapper

__all__ = ["BatchAttention", "BatchAttentionWithAttentionSinkWrapper"]


class BatchAttention(PagedWrapper):
    """A batch of queries of any number over paged keys."""

    _init, _are_lens, _defaults = "kv_layout", True, {"q_data_type": "bfloat16", "kv_data_type": "bfloat16"}
    _array_names = "qo_indptr", "kv_indptr", "kv_indices", "kv_len_arr"
    _plan = (f"{' '.join(_array_names)} num_qo_heads num_kv_heads head_dim_qk head_dim_vo page_size | causal sm_scale "
        "logits_soft_cap q_data_type kv_data_type use_profiler")  # fmt: skip

    def __init__(self, kv_layout: str = "NHD", device: str = "cuda") -> None:
        super().__init__(torch.empty(0, device=device), kv_layout)

    def run(  # type: ignore[override]
        self, q: Tensor, kv_cache: Cache, *args: Any, logits_soft_cap: float = 0.0, **how: Any
    ) -> Result:
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
    _init = BatchPrefillWithPagedKVCacheWrapper._init + (
        " pos_encoding_mode use_fp16_qk_reduction q_data_type kv_data_type head_dim_qk head_dim_vo window_left"
    )
