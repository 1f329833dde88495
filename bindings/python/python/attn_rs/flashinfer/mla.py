"""`flashinfer.mla`: multi-head latent attention over paged compressed keys. Where the two caches are neighbouring views
of one tensor, as engines have them, they are read in place; others are copied together, all pages, in every run."""

from typing import Any

import torch

from .._arrays import joined
from ._bindings import FP8, Maybe, Number, Result, Tensor, bind, product, refuse_given
from ._tables import trtllm_batch_decode_with_kv_cache_mla
from ._wrapper import PagedWrapper

__all__ = ["BatchDecodeMlaWithPagedKVCacheWrapper", "BatchMLAPagedAttentionWrapper",
    "trtllm_batch_decode_with_kv_cache_mla"]  # fmt: skip


class BatchMLAPagedAttentionWrapper(PagedWrapper):
    """Queries in two parts, over compressed keys that are values as well."""

    _array_names = _buffer_names = "qo_indptr", "kv_indptr", "kv_indices", "kv_len_arr"
    _init = f"use_cuda_graph {' '.join(_buffer_names)} backend"
    _plan = (f"{' '.join(_array_names)} num_heads head_dim_ckv head_dim_kpe page_size causal sm_scale q_data_type "
        "kv_data_type | use_profiler")  # fmt: skip
    _layout, _are_lens = "latent", True

    def _check(self, given: dict[str, Any]) -> None:
        if given.get("kv_data_type") in FP8 and given["q_data_type"] == torch.float16:
            raise ValueError("fp8 KV requires q_data_type=torch.bfloat16")

    def _dims(self, given: dict[str, Any]) -> tuple[int, int]:
        return given["head_dim_ckv"] + given["head_dim_kpe"], given["head_dim_ckv"]

    def run(self, q_nope: Tensor, q_pe: Tensor, ckv_cache: Tensor, kpe_cache: Tensor,  # type: ignore[override]
            out: Maybe = None, lse: Maybe = None, return_lse: bool = False, profiler_buffer: Maybe = None,
            kv_len: Maybe = None, page_table: Maybe = None, return_lse_base_on_e: bool = False,
            o_scale: float | None = None, *, ckv_scale: Number | None = None, ckv_scale_arr: Maybe = None,
            kpe_scale: Number | None = None) -> Result:  # fmt: skip
        """Launches, after a copy of both parts of queries side by side. Another `kpe_scale` than `ckv_scale` goes into
        queries; with `ckv_scale_arr`, float32 of (pages, slots, ckv / 128), all pages are decoded in every run."""
        refuse_given(locals())
        has_kpe, planned = self._heads[2] > self._heads[3], self._kv_dtype
        if not has_kpe:
            q_pe, kpe_cache, kpe_scale = q_nope[..., :0], ckv_cache[..., :0], ckv_scale
        parts = {"q_nope": q_nope, "q_pe": q_pe, "ckv_cache": ckv_cache, "kpe_cache": kpe_cache}
        for (name, x), dtype in zip(parts.items(), [self._q_dtype] * 2 + [planned] * 2, strict=True):
            if x.dtype != dtype:
                raise ValueError(f"{name}.dtype is {x.dtype}, and {dtype} was given to plan")
        if planned in FP8 and ((ckv_scale is None) == (ckv_scale_arr is None) or (has_kpe and kpe_scale is None)):
            raise ValueError("Exactly one of ckv_scale or ckv_scale_arr is required with fp8 KV, and kpe_scale")
        if ckv_scale_arr is not None:
            if ckv_scale_arr.shape != (*ckv_cache.shape[:-1], groups := ckv_cache.shape[-1] // 128):
                raise ValueError(f"Invalid shape of ckv_scale_arr: {(*ckv_scale_arr.shape,)}, of {groups} groups a key")
            scales = ckv_scale_arr.repeat_interleave(128, -1)
            ckv_cache, planned = (ckv_cache.float() * scales).to(self._q_dtype), self._q_dtype
            kpe_cache, kpe_scale = (kpe_cache.float() * product(kpe_scale)).to(planned), None
        scale, ratio = product(ckv_scale), product(kpe_scale) / product(ckv_scale)
        if isinstance(ratio, Tensor) or ratio != 1.0:
            q_pe = (q_pe * ratio).to(q_pe.dtype)
        how: dict[str, Any] = {"out": out, "lse": lse, "return_lse": return_lse, "base_2": not return_lse_base_on_e}
        q, pool = torch.cat([q_nope, q_pe], -1) if has_kpe else q_nope, joined(ckv_cache, kpe_cache)[:, :, None]
        return self._launch(q, pool, None, k_scale=scale, v_scale=scale, kv_dtype=planned, **how)


class BatchDecodeMlaWithPagedKVCacheWrapper(BatchMLAPagedAttentionWrapper):
    """The older wrapper, of one query a request. As in FlashInfer's kernel, queries and keys come rotated, so that
    `rope_scale` and `rope_theta` are without effect, and rotary parts have an eighth of the compressed elements."""

    _buffer_names = "", "paged_kv_indptr_buffer", "paged_kv_indices_buffer", "paged_kv_last_page_len_buffer"
    _array_names = "", "indptr", "indices", "last_page_len"
    _init = f"use_cuda_graph use_tensor_cores {' '.join(_buffer_names[1:])}"
    _plan = ("indptr indices last_page_len num_qo_heads head_dim_compressed_kv page_size sm_scale | window_left "
        "logits_soft_cap data_type q_data_type rope_scale rope_theta")  # fmt: skip
    _are_lens, _defaults = False, {"data_type": "float16"}

    def _dims(self, given: dict[str, Any]) -> tuple[int, int]:
        return given["head_dim_compressed_kv"] * 9 // 8, given["head_dim_compressed_kv"]

    def run(self, q_nope: Tensor, q_pe: Tensor, paged_ckv_cache: Tensor,  # type: ignore[override]
            paged_kpe_cache: Tensor, *args: Any, **how: Any) -> Result:  # fmt: skip
        given = bind("q_scale k_scale v_scale out lse return_lse enable_pdl", args, how)
        given.pop("enable_pdl", None)
        return self._launch(joined(q_nope, q_pe), joined(paged_ckv_cache, paged_kpe_cache)[:, :, None], None, **given)
