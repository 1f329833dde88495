"""`flashinfer.prefill`: queries of any number over ragged or paged keys.

Without effect are the workspaces, `backend`, `jit_kwargs`, `use_fp16_qk_reduction`, `non_blocking`, `enable_pdl`, and
what only cuDNN and trtllm-gen read: `seq_lens`, `seq_lens_q`, `block_tables`, `max_token_per_sequence`,
`max_sequence_kv`, `max_item_len_ptr`, `use_fp16_softmax`, `uses_spcompress`.
"""

import functools
from typing import Any

import torch

from .. import _native
from ._bindings import TAIL, Cache, Dtype, Maybe, Number, Options, Tensor, attend, expression, host, mask_of_plan
from ._bindings import product, q_type, refuse_given, store
from ._wrapper import PagedWrapper, Result, Wrapper

__all__ = [
    "BatchPrefillWithPagedKVCacheWrapper", "BatchPrefillWithRaggedKVCacheWrapper", "single_prefill_with_kv_cache",
    "single_prefill_with_kv_cache_return_lse",
]  # fmt: skip


def single_prefill_with_kv_cache(
    q: Tensor, k: Tensor, v: Tensor, scale_q: Maybe = None, scale_k: Maybe = None, scale_v: Maybe = None,
    o_dtype: torch.dtype | None = None, custom_mask: Maybe = None, packed_custom_mask: Maybe = None,
    causal: bool = False, kv_layout: str = "NHD", pos_encoding_mode: str = "NONE", use_fp16_qk_reduction: bool = False,
    sm_scale: float | None = None, window_left: int = -1, logits_soft_cap: float | None = None,
    rope_scale: float | None = None, rope_theta: float | None = None, backend: str = "auto", return_lse: bool = False,
    kv_cache_sf: tuple[Tensor, Tensor] | None = None, k_scale: Number | None = None, v_scale: Number | None = None,
) -> Result:  # fmt: skip
    """Attention of one request, by `attn_rs.attention`, which keeps the plans of the last 64 shapes. With `return_lse`
    also the log-sum-exps, in base 2. A `k_scale` that is a tensor is read on the host."""
    if kv_layout == "HND":
        k, v = k.transpose(0, 1), v.transpose(0, 1)
        kv_cache_sf = None if kv_cache_sf is None else (kv_cache_sf[0].transpose(0, 1), kv_cache_sf[1].transpose(0, 1))
    (n, heads, dim), (m, kv_heads, _) = q.shape, k.shape
    options = Options(causal, window_left, logits_soft_cap, pos_encoding_mode, sm_scale, rope_scale, rope_theta)
    o_dtype = o_dtype or (torch.float16 if q.element_size() == 1 else q.dtype)
    if k.dtype == torch.uint8:
        wrapper = BatchPrefillWithRaggedKVCacheWrapper(q)
        wrapper._keep((heads, kv_heads, dim, 2 * v.shape[2]), options, (q.dtype, k.dtype, o_dtype))
        wrapper._plan_rows([0, n], [0, m], custom_mask, packed_custom_mask, None, None, 0)
        return wrapper.run(q, k, v, k_scale=k_scale, v_scale=v_scale, return_lse=return_lse, kv_cache_sf=kv_cache_sf)
    if custom_mask is None and packed_custom_mask is not None:
        shifts = torch.arange(8, device=q.device, dtype=torch.uint8)
        custom_mask = ((packed_custom_mask.reshape(-1, 1) >> shifts) & 1).reshape(-1)[: n * m]
    mask = None if custom_mask is None else custom_mask.reshape(1, 1, n, m).bool()
    of_heads = {"q": (scale_q, heads), "k": (scale_k, kv_heads), "v": (scale_v, kv_heads)}
    if scale_q is None and scale_k is None and scale_v is None:
        of_heads = {}
    ones = functools.partial(torch.ones, device=q.device)
    params = {f"head_scales.{name}": ones(of) if x is None else x for name, (x, of) in of_heads.items()}
    scale = float(product(k_scale, dim**-0.5 if sm_scale is None else sm_scale))
    variant = expression(options, None if mask is None else "", ("head_scales",) if params else ())
    rows = q.to(q_type(q.dtype, o_dtype))[None], k[None], v[None]
    o, lse = attend(*rows, variant, scale, params, "bshd", None, None, mask, None, return_lse, base_2=True)
    o = store(o[0] if v_scale is None else o[0].mul_(v_scale), None, o_dtype)
    return (o, lse[0]) if return_lse else o


single_prefill_with_kv_cache_return_lse = functools.partial(single_prefill_with_kv_cache, return_lse=True)


class BatchPrefillWithPagedKVCacheWrapper(PagedWrapper):
    """A batch over paged keys. In a wrapper for CUDA graphs the buffers bound what plans may have."""

    _forward = "q paged_kv_cache causal pos_encoding_mode use_fp16_qk_reduction k_scale v_scale window_left" + TAIL

    def __init__(
        self, float_workspace_buffer: Tensor, kv_layout: str = "NHD", use_cuda_graph: bool = False,
        qo_indptr_buf: Maybe = None, paged_kv_indptr_buf: Maybe = None, paged_kv_indices_buf: Maybe = None,
        paged_kv_last_page_len_buf: Maybe = None, custom_mask_buf: Maybe = None, mask_indptr_buf: Maybe = None,
        backend: str = "auto", jit_args: list[Any] | None = None, jit_kwargs: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        buffers = qo_indptr_buf, paged_kv_indptr_buf, paged_kv_indices_buf, paged_kv_last_page_len_buf
        super().__init__(float_workspace_buffer, kv_layout, use_cuda_graph, buffers, backend, jit_args)
        self._custom_mask_buf, self._mask_indptr_buf = custom_mask_buf, mask_indptr_buf

    def plan(
        self, qo_indptr: Tensor, paged_kv_indptr: Tensor, paged_kv_indices: Tensor, paged_kv_last_page_len: Tensor,
        num_qo_heads: int, num_kv_heads: int, head_dim_qk: int, page_size: int, head_dim_vo: int | None = None,
        custom_mask: Maybe = None, packed_custom_mask: Maybe = None, causal: bool = False,
        pos_encoding_mode: str = "NONE", use_fp16_qk_reduction: bool = False, sm_scale: float | None = None,
        window_left: int = -1, logits_soft_cap: float | None = None, rope_scale: float | None = None,
        rope_theta: float | None = None, q_data_type: Dtype = "float16", kv_data_type: Dtype | None = None,
        o_data_type: Dtype | None = None, non_blocking: bool = True, prefix_len_ptr: Maybe = None,
        token_pos_in_items_ptr: Maybe = None, token_pos_in_items_len: int = 0, max_item_len_ptr: Maybe = None,
        seq_lens: Maybe = None, seq_lens_q: Maybe = None, block_tables: Maybe = None,
        max_token_per_sequence: int | None = None, max_sequence_kv: int | None = None,
        fixed_split_size: int | None = None, disable_split_kv: bool = False,
    ) -> None:  # fmt: skip
        """Plans a batch. On a CUDA device it reads the arrays on the host, and waits for them."""
        options = Options(causal, window_left, logits_soft_cap, pos_encoding_mode, sm_scale, rope_scale, rope_theta)
        heads = num_qo_heads, num_kv_heads, head_dim_qk, head_dim_vo or head_dim_qk
        split = fixed_split_size, disable_split_kv, page_size
        self._keep(heads, options, (q_data_type, kv_data_type, o_data_type), split)
        items = prefix_len_ptr, token_pos_in_items_ptr, token_pos_in_items_len
        mask = mask_of_plan(self._use_cuda_graph, custom_mask, packed_custom_mask, *items)
        self._plan_pages((qo_indptr, paged_kv_indptr, paged_kv_indices, paged_kv_last_page_len), page_size, mask=mask)


class BatchPrefillWithRaggedKVCacheWrapper(Wrapper):
    """A batch over keys one request after the other."""

    _forward = "q k v causal pos_encoding_mode use_fp16_qk_reduction window_left" + TAIL

    def __init__(
        self, float_workspace_buffer: Tensor, kv_layout: str = "NHD", use_cuda_graph: bool = False,
        qo_indptr_buf: Maybe = None, kv_indptr_buf: Maybe = None, custom_mask_buf: Maybe = None,
        mask_indptr_buf: Maybe = None, backend: str = "auto", jit_args: list[Any] | None = None,
        jit_kwargs: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(float_workspace_buffer, kv_layout, use_cuda_graph, backend, jit_args)
        self._qo_indptr_buf, self._kv_indptr_buf = qo_indptr_buf, kv_indptr_buf
        self._custom_mask_buf, self._mask_indptr_buf = custom_mask_buf, mask_indptr_buf
        self._fixed_batch_size = len(qo_indptr_buf) - 1 if qo_indptr_buf is not None else 0
        self._layout, self._max_keys = "NHD", -1

    def plan(
        self, qo_indptr: Tensor, kv_indptr: Tensor, num_qo_heads: int, num_kv_heads: int, head_dim_qk: int,
        head_dim_vo: int | None = None, custom_mask: Maybe = None, packed_custom_mask: Maybe = None,
        causal: bool = False, pos_encoding_mode: str = "NONE", use_fp16_qk_reduction: bool = False,
        window_left: int = -1, logits_soft_cap: float | None = None, sm_scale: float | None = None,
        rope_scale: float | None = None, rope_theta: float | None = None, q_data_type: Dtype = "float16",
        kv_data_type: Dtype | None = None, o_data_type: Dtype | None = None, non_blocking: bool = True,
        prefix_len_ptr: Maybe = None, token_pos_in_items_ptr: Maybe = None, token_pos_in_items_len: int = 0,
        max_item_len_ptr: Maybe = None, fixed_split_size: int | None = None, disable_split_kv: bool = False,
        seq_lens: Maybe = None, seq_lens_q: Maybe = None, max_token_per_sequence: int | None = None,
        max_sequence_kv: int | None = None, v_indptr: Maybe = None, o_indptr: Maybe = None,
    ) -> None:  # fmt: skip
        """Plans a batch. On a CUDA device it reads the arrays on the host, and waits for them. In a wrapper for CUDA
        graphs the first batch bounds queries and keys."""
        refuse_given("values and outputs are where keys and queries are", v_indptr=v_indptr, o_indptr=o_indptr)
        options = Options(causal, window_left, logits_soft_cap, pos_encoding_mode, sm_scale, rope_scale, rope_theta)
        heads = num_qo_heads, num_kv_heads, head_dim_qk, head_dim_vo or head_dim_qk
        split = fixed_split_size, disable_split_kv, 1
        self._keep(heads, options, (q_data_type, kv_data_type, o_data_type), split)
        items = prefix_len_ptr, token_pos_in_items_ptr, token_pos_in_items_len
        self._plan_rows(qo_indptr, kv_indptr, custom_mask, packed_custom_mask, *items)

    def _plan_rows(self, qo_indptr: Any, kv_indptr: Any, *mask: Any) -> None:
        qo, kv = host(qo_indptr), host(kv_indptr)
        if len(qo) != len(kv):
            raise ValueError("The kv_indptr length should be equal to qo_indptr length.")
        self._check_requests(requests := len(qo) - 1)
        self._max_keys = int(kv[-1]) if self._max_keys < 0 else self._max_keys
        keys, rows = self._max_keys, self._rows(qo)

        def capacity(_: int) -> _native.Capacity:
            return _native.Capacity(requests, keys, qo_tokens=rows)

        made = mask_of_plan(self._use_cuda_graph, *mask)
        masked = (None, None, {}) if made is None else made(qo, kv.diff())
        self._set_batch(lambda _: _native.Batch.ragged(qo, kv), capacity, None, *masked)

    def run(
        self, q: Tensor, k: Tensor, v: Tensor, *args: Any, o_scale: float | None = None,
        enable_pdl: bool | None = None, kv_cache_sf: Cache | None = None, **how: Any,
    ) -> Result:  # fmt: skip
        """Launches. `args` may be `scale_q, scale_k, scale_v`, and `how` is as in the wrapper of pages: `q_scale`,
        `k_scale`, `v_scale`, `out`, `lse`, `return_lse`, `sinks`."""
        refuse_given("divide the output", o_scale=None if o_scale == 1.0 else o_scale)
        sides = None if kv_cache_sf is None else (kv_cache_sf[0], kv_cache_sf[1])
        return self._launch(q, k, v, args, sides=sides, **how)
