"""Attention over block tables, in one call that plans by itself."""

import sys
import threading
from collections import OrderedDict
from typing import Any

from . import _attention, _native
from ._arrays import check_tensor, device_name, dtype_name, empty, is_base_2, is_capturing, is_torch
from ._errors import InvalidTensor, Unsupported
from ._plans import AttentionKey, Plans

_LIMIT = 64
_lock = threading.Lock()
_kept: "OrderedDict[Any, _Tables]" = OrderedDict()


class _Tables:
    """The plan of one shape and attention. `sizes`: requests, queries, pages of a request, keys of a page, pages."""

    def __init__(self, sizes: tuple[int, ...], kv_layout: str) -> None:
        self.sizes, self.plans, self.lock = sizes, Plans(self, kv_layout), threading.Lock()
        # `qo_indptr`, the block table, numbers of keys
        self.arrays: tuple[Any, ...] = ()

    def host_batch(self, pages: int) -> _native.Batch:
        if is_capturing(self.arrays[1]):
            raise Unsupported(
                "a CUDA graph captures a call of `paged_attention` whose plan is made on the host: use an "
                "`attn_rs.Plan`, and update it outside of the graph"
            )
        arrays = (x.cpu() if is_torch(x) else x.get() if hasattr(x, "get") else x for x in self.arrays)
        return _native.Batch.block_table(*arrays, page_size=self.sizes[3], num_pages=pages)

    def device_batch(self) -> _native.DeviceBatch:
        return _native.DeviceBatch.block_table(*self.arrays)

    def capacity(self, pages: int) -> _native.Capacity:
        requests, queries, width, page_size, _ = self.sizes
        keys = min(requests * min(width, pages) * page_size, (1 << 30) - 1)
        qo_tokens = None if queries == requests else queries
        return _native.Capacity(requests, keys, qo_tokens=qo_tokens, page_size=page_size, num_pages=pages)


def paged_attention(
    q: Any,
    k_pool: Any,
    v_pool: Any,
    block_table: Any,
    kv_lens: Any,
    variant: str = "causal",
    *,
    qo_indptr: Any = None,
    scale: float | None = None,
    params: dict[str, Any] | None = None,
    kv_layout: str = "NHD",
    kv_format: str | None = None,
    value_dim: int | None = None,
    out: Any = None,
    lse: Any = None,
    return_lse: bool = False,
    lse_base: Any = "e",
    k_scale: Any = 1.0,
    v_scale: Any = 1.0,
    k_side: Any = None,
    v_side: Any = None,
) -> Any:
    """Attention over a paged cache, in one call: decode, drafts, or prefill of a batch.

    Args:
        q: queries, (tokens, query heads, head dim).
        k_pool, v_pool: pools as `kv_layout` says (`Plan`); `v_pool` is None for one pool.
        block_table: (requests, pages of a request) in int32, without gaps: the pages of each request.
        kv_lens: (requests) in int32: the keys of each. The last query of a request is at the position of its last key.
        variant, scale, params: as in `attention`.
        qo_indptr: (requests + 1) in int32: where the queries of each request begin, and their number. By default all
            have as many.
        kv_format, k_side, v_side: as in `Plan` and its `run`.
        value_dim: elements of a value, by default as many as the tensor of values has, or with a `kv_format` as queries
            have.
        out, lse: where the output, (tokens, query heads, value dim), and log-sum-exps go, else new memory.
        return_lse, lse_base: whether to return log-sum-exps, natural or in base 2.
        k_scale, v_scale: what stored keys and values are multiplied by: numbers, or float32 of (KV heads).

    Returns:
        The output, or a pair of it and the log-sum-exps.

    Arrays are in memory of the device of `q`. The first call of a shape plans on the host, and waits for them. A later
    one plans on the device, where its kernel can: it waits for nothing, and a CUDA graph can capture it, whose replays
    read the arrays anew, so they live as long as the graph. The plans of the last 64 shapes and variants are kept.

    Raises:
        InvalidVariant, InvalidTensor, InvalidBatch, InvalidArgument: all are `ValueError`s.
        Unsupported: heads or element types that no kernel has; a call under a capture that none like it was before.
    """
    base_2, of_values = is_base_2(lse_base), k_pool if v_pool is None else v_pool
    check_tensor("q", q, 3)
    check_tensor("block_table", block_table, 2)
    check_tensor("k_pool", k_pool, 5 if kv_layout.startswith("fused") else 4)
    (tokens, heads, head_dim), (requests, width) = q.shape, block_table.shape
    slots, kv_heads = k_pool.shape[-3:-1] if not kv_layout.endswith("HND") else k_pool.shape[-2:-4:-1]
    if value_dim is None:
        value_dim = head_dim if kv_format is not None else of_values.shape[-1]
    if qo_indptr is None:
        if requests == 0 or tokens % requests:
            raise InvalidTensor(f"q has {tokens} queries of {requests} requests; give `qo_indptr`")
        qo_indptr = _indptr(block_table, requests, tokens // requests)
    fixed, tensors = _attention._split(q, variant, params)
    dtype = dtype_name(q)
    made_of = dtype, dtype if kv_format is not None else dtype_name(k_pool), kv_format, None, kv_layout == "latent"
    key = AttentionKey(variant, scale, device_name(q), heads, kv_heads, head_dim, value_dim, *made_of)
    sizes = requests, tokens, width, slots, max(k_pool.shape[0], 1)
    values = tuple((name, repr(value)) for name, value in fixed.items()), tuple(tensors)
    full = key, sizes, kv_layout, values, _attention._changes
    with _lock:
        tables = _kept.setdefault(full, _Tables(sizes, kv_layout))
        _kept.move_to_end(full)
        if len(_kept) > _LIMIT:
            _kept.popitem(last=False)
    out = empty(q, (tokens, heads, value_dim)) if out is None else out
    lse = empty(q, (tokens, heads), "float32") if lse is None and return_lse else lse
    with tables.lock:
        tables.arrays = qo_indptr, block_table, kv_lens
        tables.plans.new_batch()
        numbers = {name: _attention._numbers(q, value) for name, value in tensors.items()}
        how = {"k_side": k_side, "v_side": v_side, "lse_base_2": base_2, "k_scale": k_scale, "v_scale": v_scale}
        tables.plans.run(key, q, k_pool, v_pool, out, lse, params=fixed, tensors=numbers, **how)
    return (out, lse) if return_lse else out


def _indptr(like: Any, requests: int, each: int) -> Any:
    """Where the queries of requests begin that have so many each, beside `like`."""
    if is_torch(like):
        torch = sys.modules["torch"]
        return torch.arange(0, requests * each + 1, max(each, 1), device=like.device, dtype=torch.int32)
    library = sys.modules[type(like).__module__.partition(".")[0]]
    return library.arange(0, requests * each + 1, max(each, 1), dtype="int32")
