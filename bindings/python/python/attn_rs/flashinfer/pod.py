"""`flashinfer.pod`: prefill and decode, each a launch. Without effect are `use_fp16_qk_reduction` and `enable_pdl`."""

from typing import Any

from ._bindings import Cache, Result, Tensor, refuse, refuse_given
from .decode import BatchDecodeWithPagedKVCacheWrapper
from .prefill import BatchPrefillWithPagedKVCacheWrapper, single_prefill_with_kv_cache

__all__ = ["BatchPODWithPagedKVCacheWrapper", "PODWithPagedKVCacheWrapper"]


class PODWithPagedKVCacheWrapper(BatchDecodeWithPagedKVCacheWrapper):
    """Prefill of one request, and decode of a batch, which `plan` plans."""

    def run(  # type: ignore[override]
            self, q_p: Tensor, k_p: Tensor, v_p: Tensor, q_d: Tensor, paged_kv_cache_d: Cache, *,
            enable_pdl: bool | None = None, **how: Any) -> tuple[Result, Result]:  # fmt: skip
        """The outputs of both. Options of prefill end in `_p`, those of decode in `_d`: they are those of `plan`, and
        `causal_d` is without effect on one query."""
        refuse_given(how)
        own: Any = {name: how.pop(name) for name in ("q_scale", "k_scale", "v_scale") if name in how}
        own["return_lse"] = how.pop("return_lse_d", False)
        planned = {**self._options._asdict(), "kv_layout": self._kv_layout}
        for name in [name for name in how if name.endswith("_d")]:
            option, value = name.removesuffix("_d"), how.pop(name)
            if option not in (*planned, "custom_mask", "packed_custom_mask"):
                raise TypeError(f"run() got an unexpected keyword argument '{name}'")
            if option != "causal" and value != planned.get(option):
                raise ValueError(f"{name} is {value} in run and {planned.get(option)} in plan")
        of_prefill = {name.removesuffix("_p"): value for name, value in how.items()}
        return single_prefill_with_kv_cache(q_p, k_p, v_p, **of_prefill), super().run(q_d, paged_kv_cache_d, **own)


class BatchPODWithPagedKVCacheWrapper:
    """A batch of prefill and a batch of decode, over pages."""

    def __init__(self, float_workspace_buffer: Tensor, kv_layout: str = "NHD") -> None:
        self._prefill = BatchPrefillWithPagedKVCacheWrapper(float_workspace_buffer, kv_layout)
        self._decode = BatchPrefillWithPagedKVCacheWrapper(float_workspace_buffer, kv_layout)

    def plan(self, *arrays_and_sizes: Any, data_type: Any = None, **options: Any) -> None:
        """`qo_indptr`, `kv_indptr`, `kv_indices` and `last_page_len` of prefill, those of decode, and the sizes."""
        options = {"q_data_type": data_type, "kv_data_type": data_type} | options if data_type else options
        self._prefill.plan(*arrays_and_sizes[:4], *arrays_and_sizes[8:], **options)
        self._decode.plan(*arrays_and_sizes[4:], **options)

    def run(self, q_p: Tensor, paged_kv_cache_p: Cache, q_d: Tensor, paged_kv_cache_d: Cache, custom_mask_p: Any = None,
            packed_custom_mask_p: Any = None, causal_p: bool = False, use_fp16_qk_reduction: bool = False,
            **how: Any) -> tuple[Result, Result]:  # fmt: skip
        """The outputs of both."""
        if custom_mask_p is not None or packed_custom_mask_p is not None:
            refuse("a `custom_mask_p` of a batch", "plan a BatchPrefillWithPagedKVCacheWrapper with the mask")
        self._prefill._options = self._prefill._options._replace(causal=causal_p)
        return self._prefill.run(q_p, paged_kv_cache_p, **how), self._decode.run(q_d, paged_kv_cache_d, **how)
