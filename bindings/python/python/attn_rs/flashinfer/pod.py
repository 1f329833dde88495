"""`flashinfer.pod`: prefill and decode, each a launch."""

from typing import Any

from ._bindings import Cache, Tensor, refuse_given
from ._wrapper import Result
from .decode import BatchDecodeWithPagedKVCacheWrapper
from .prefill import BatchPrefillWithPagedKVCacheWrapper, single_prefill_with_kv_cache

__all__ = ["BatchPODWithPagedKVCacheWrapper", "PODWithPagedKVCacheWrapper"]

_MASKS_OF_DECODE = "custom_mask_d", "packed_custom_mask_d"

class PODWithPagedKVCacheWrapper(BatchDecodeWithPagedKVCacheWrapper):
    """Prefill of one request, and decode of a batch, which `plan` plans. `enable_pdl` is without effect."""

    def run(  # type: ignore[override]
        self, q_p: Tensor, k_p: Tensor, v_p: Tensor, q_d: Tensor, paged_kv_cache_d: Cache, **how: Any
    ) -> tuple[Result, Result]:  # fmt: skip
        """The outputs of both. Options of prefill end in `_p`, those of decode in `_d`: they are those of `plan`, and
        `causal_d` is without effect on one query."""
        refuse_given("decode sees every key", **{name: how.pop(name, None) for name in _MASKS_OF_DECODE})
        own = {name: how.pop(name, None) for name in ("q_scale", "k_scale", "v_scale")}
        own["return_lse"] = how.pop("return_lse_d", False)
        how = {name: value for name, value in how.items() if name not in ("causal_d", "enable_pdl")}
        planned = self._options._asdict() | {"kv_layout": self._kv_layout}
        for name in [name for name in how if name.endswith("_d")]:
            option, value = name.removesuffix("_d"), how.pop(name)
            if option not in planned:
                raise TypeError(f"run() got an unexpected keyword argument '{name}'")
            if value != planned[option]:
                raise ValueError(f"{name} is {value} in run and {planned[option]} in plan")
        of_prefill = {name.removesuffix("_p"): value for name, value in how.items()}
        return single_prefill_with_kv_cache(q_p, k_p, v_p, **of_prefill), super().run(q_d, paged_kv_cache_d, **own)


class BatchPODWithPagedKVCacheWrapper:
    """A batch of prefill and a batch of decode, over pages."""

    def __init__(self, float_workspace_buffer: Tensor, kv_layout: str = "NHD") -> None:
        self._prefill, self._decode = (
            BatchPrefillWithPagedKVCacheWrapper(float_workspace_buffer, kv_layout) for _ in range(2)
        )

    def plan(self, *arrays_and_sizes: Any, data_type: Any = None, **options: Any) -> None:
        """`qo_indptr`, `kv_indptr`, `kv_indices` and `last_page_len` of prefill, those of decode, and the sizes."""
        options = {"q_data_type": data_type, "kv_data_type": data_type} | options if data_type else options
        self._prefill.plan(*arrays_and_sizes[:4], *arrays_and_sizes[8:], **options)
        self._decode.plan(*arrays_and_sizes[4:], **options)

    def run(
        self, q_p: Tensor, paged_kv_cache_p: Cache, q_d: Tensor, paged_kv_cache_d: Cache, custom_mask_p: Any = None,
        packed_custom_mask_p: Any = None, causal_p: bool = False, **how: Any,
    ) -> tuple[Result, Result]:  # fmt: skip
        """The outputs of both. `use_fp16_qk_reduction` and `enable_pdl` are without effect."""
        masks = {"custom_mask_p": custom_mask_p, "packed_custom_mask_p": packed_custom_mask_p}
        refuse_given("plan a BatchPrefillWithPagedKVCacheWrapper with the mask", **masks)
        how = {name: value for name, value in how.items() if name not in ("use_fp16_qk_reduction", "enable_pdl")}
        self._prefill._options = self._prefill._options._replace(causal=causal_p)
        return self._prefill.run(q_p, paged_kv_cache_p, **how), self._decode.run(q_d, paged_kv_cache_d, **how)
