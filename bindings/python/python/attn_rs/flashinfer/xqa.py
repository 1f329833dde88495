"""`flashinfer.xqa`: decode without a plan. Block tables and lengths are read on the host, so that each call waits for
the stream. Without effect are the workspace, `max_seq_len` and `enable_pdl`.
"""

from typing import Any

import torch

from .. import _native
from ._bindings import Cache, Maybe, Number, Options, Tensor, host, unpack
from ._wrapper import PagedWrapper, Result

__all__ = ["xqa_batch_decode_with_kv_cache"]


def xqa_batch_decode_with_kv_cache(
    query: Tensor, kv_cache: Cache, workspace_buffer: Tensor, block_tables: Tensor, seq_lens: Tensor, max_seq_len: int,
    bmm1_scale: Number = 1.0, bmm2_scale: Number = 1.0, window_left: int = -1, out: Maybe = None, sinks: Any = None,
    kv_layout: str = "NHD", enable_pdl: bool | None = None, q_len_per_req: int = 1, o_scale: float = 1.0,
    mask: Maybe = None, kv_cache_sf: Cache | None = None, q_cu_seq_lens: Maybe = None,
) -> Result:  # fmt: skip
    """Decode. `mask` has bits of drafts, a row for each query over the queries of its request. `o_scale` is a part of
    `bmm2_scale` already."""
    k, v = unpack(kv_cache, kv_layout)
    requests, heads, axis = len(seq_lens), query.shape[1], 2 if kv_layout == "NHD" else 1
    if q_cu_seq_lens is None and query.shape[0] != requests * q_len_per_req:
        raise ValueError(f"q has {query.shape[0]} rows; there are {requests} requests of q_len_per_req={q_len_per_req}")
    qo = torch.arange(requests + 1) * q_len_per_req if q_cu_seq_lens is None else q_cu_seq_lens
    wrapper = PagedWrapper(query, kv_layout, False, (None, None, None, None), "auto")
    # of one run, which plans
    wrapper._is_lazy = True
    o_dtype = out.dtype if out is not None else torch.bfloat16 if query.element_size() == 1 else query.dtype
    value_dim = v.shape[3] * (2 if v.dtype == torch.uint8 else 1)
    options = Options(True, window_left, sm_scale=float(bmm1_scale))
    wrapper._keep((heads, k.shape[axis], query.shape[2], value_dim), options, (query.dtype, k.dtype, o_dtype))

    def batch(pages: int) -> _native.Batch:
        arrays = host(qo), host(block_tables), host(seq_lens.reshape(-1))
        return _native.Batch.block_table(*arrays, page_size=k.shape[3 - axis], num_pages=pages)

    part, params = None, {}
    if mask is not None:
        bits = mask.reshape(query.shape[0], -1).contiguous().view(torch.uint8)
        shifts = torch.arange(8, device=bits.device, dtype=torch.uint8)
        ancestors = ((bits[..., None] >> shifts) & 1).reshape(query.shape[0], -1).bool()
        part, params = f"tree(width={ancestors.shape[1]})", {"tree.ancestors": ancestors.cpu()}
    wrapper._set_batch(batch, mask_part=part, params=params)
    sides = None if kv_cache_sf is None else unpack(kv_cache_sf, kv_layout)
    return wrapper._launch(query, k, v, v_scale=bmm2_scale, out=out, sinks=sinks, sides=sides)
