"""`flashinfer.mla`: multi-head latent attention over paged compressed keys. Without effect are workspace and `backend`.

attn_rs has compressed and rotary keys in one tensor. Where the two caches are neighbouring views of one, as engines
have them, they are read in place; others are copied together, all pages, in every run.
"""

from typing import Any

import torch

from ._bindings import FP8, LOG2E, Kind, Maybe, Number, Options, Tensor, product, refuse_given
from ._wrapper import PagedWrapper, Result

__all__ = ["BatchMLAPagedAttentionWrapper"]


def _latent(ckv: Tensor, kpe: Tensor) -> Tensor:
    """One pool, (pages, slots, 1, ckv + kpe)."""
    dim = ckv.shape[-1] + kpe.shape[-1]
    if kpe.shape[-1] == 0:
        return ckv[:, :, None]
    behind = ckv.data_ptr() + ckv.shape[-1] * ckv.element_size() == kpe.data_ptr()
    if behind and ckv.dtype == kpe.dtype and ckv.stride() == kpe.stride() and ckv.stride(-2) >= dim:
        return ckv.as_strided((*ckv.shape[:2], 1, dim), (*ckv.stride()[:2], dim, 1))
    return torch.cat([ckv, kpe], -1)[:, :, None]


class BatchMLAPagedAttentionWrapper(PagedWrapper):
    """Queries in two parts, over compressed keys that are values as well."""

    def __init__(
        self, float_workspace_buffer: Tensor, use_cuda_graph: bool = False, qo_indptr: Maybe = None,
        kv_indptr: Maybe = None, kv_indices: Maybe = None, kv_len_arr: Maybe = None, backend: str = "auto",
    ) -> None:  # fmt: skip
        buffers = qo_indptr, kv_indptr, kv_indices, kv_len_arr
        super().__init__(float_workspace_buffer, "NHD", use_cuda_graph, buffers, backend)
        self._layout = "latent"

    def plan(
        self, qo_indptr: Tensor, kv_indptr: Tensor, kv_indices: Tensor, kv_len_arr: Tensor, num_heads: int,
        head_dim_ckv: int, head_dim_kpe: int, page_size: int, causal: bool, sm_scale: float, q_data_type: torch.dtype,
        kv_data_type: torch.dtype, use_profiler: bool = False,
    ) -> None:  # fmt: skip
        """Plans a batch. On a CUDA device it reads the arrays on the host, and waits for them."""
        refuse_given("a profiler of CUDA shows launches", use_profiler=use_profiler)
        if kv_data_type in FP8 and q_data_type == torch.float16:
            raise ValueError("fp8 KV requires q_data_type=torch.bfloat16")
        heads = num_heads, 1, head_dim_ckv + head_dim_kpe, head_dim_ckv
        self._keep(heads, Options(causal, sm_scale=sm_scale), (q_data_type, kv_data_type, q_data_type))
        self._kpe = head_dim_kpe
        self._plan_pages((qo_indptr, kv_indptr, kv_indices, kv_len_arr), page_size, are_lens=True)

    def _kind(self, scale: float | None) -> Kind:
        return super()._kind(scale)._replace(values_in_keys=True)

    def run(  # type: ignore[override]
        self, q_nope: Tensor, q_pe: Tensor, ckv_cache: Tensor, kpe_cache: Tensor, out: Maybe = None, lse: Maybe = None,
        return_lse: bool = False, profiler_buffer: Maybe = None, kv_len: Maybe = None, page_table: Maybe = None,
        return_lse_base_on_e: bool = False, o_scale: float | None = None, *, ckv_scale: Number | None = None,
        ckv_scale_arr: Maybe = None, kpe_scale: Number | None = None,
    ) -> Result:  # fmt: skip
        """Launches, after a copy of both parts of queries side by side. A `kpe_scale` other than `ckv_scale` goes into
        the queries, which are rounded once more."""
        refuse_given("call `plan` with indptr, indices and lengths", kv_len=kv_len, page_table=page_table)
        refuse_given("leave them out; outputs may be divided", o_scale=o_scale, profiler_buffer=profiler_buffer)
        refuse_given("give one `ckv_scale`; the format `ds_mla` has scales of groups", ckv_scale_arr=ckv_scale_arr)
        parts = {"q_nope": (q_nope, self._q_dtype), "ckv_cache": (ckv_cache, self._kv_dtype)}
        if self._kpe:
            parts |= {"q_pe": (q_pe, self._q_dtype), "kpe_cache": (kpe_cache, self._kv_dtype)}
        for name, (x, planned) in parts.items():
            if x.dtype != planned:
                raise ValueError(f"{name}.dtype is {x.dtype}, and {planned} was given to plan")
        if ckv_cache.dtype in FP8 and (ckv_scale is None or (self._kpe and kpe_scale is None)):
            raise ValueError("Exactly one of ckv_scale or ckv_scale_arr is required with fp8 KV, and kpe_scale")
        scale = product(ckv_scale)
        if self._kpe and (ratio := product(kpe_scale) / scale) != 1.0:
            q_pe = q_pe * ratio
        q = torch.cat([q_nope, q_pe], -1) if self._kpe else q_nope
        pool = _latent(ckv_cache, kpe_cache if self._kpe else ckv_cache[..., :0])
        got = self._launch(q, pool, None, k_scale=scale, v_scale=scale, out=out, lse=lse, return_lse=return_lse)
        if return_lse_base_on_e and isinstance(got, tuple):
            got[1].div_(LOG2E)
        return got
