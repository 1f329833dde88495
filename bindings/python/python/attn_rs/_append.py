"""New keys and values, into pools of pages."""

import functools
from typing import Any

from . import _native
from ._arrays import as_int64, check_tensor, device_name, dtype_name, per_head
from ._errors import InvalidArgument
from ._plans import AttentionKey

_kept = functools.lru_cache(maxsize=64)(AttentionKey.attention)


def append(
    k: Any,
    v: Any,
    k_pool: Any,
    v_pool: Any,
    slots: Any = None,
    *,
    kv_layout: str = "NHD",
    positions: Any = None,
    batch_indices: Any = None,
    page_indptr: Any = None,
    page_indices: Any = None,
    block_table: Any = None,
    k_scale: Any = 1.0,
    v_scale: Any = 1.0,
    attention: _native.Attention | None = None,
    kv_format: str | None = None,
    k_side: Any = None,
    v_side: Any = None,
    status: Any = None,
    stream: int | None = None,
    q: Any = None,
    q_out: Any = None,
    q_rest: Any = None,
    q_rest_out: Any = None,
    q_scale: Any = 1.0,
) -> None:
    """Appends new keys and values to pools of pages. All arrays are in memory of the device; a CUDA graph can capture
    it. A token's place is its slot, or its position in a request whose pages a table has. For a place below 0 nothing
    is written.

    Args:
        k, v: (tokens, KV heads, head dim); `v` is None for `"latent"`.
        k_pool, v_pool: pools as `kv_layout` says (`Plan`); `v_pool` is None for one pool. They may be parts of one
            tensor, such as `pool[:, 0]` and `pool[:, 1]`, as long as they share no element. Without the dimension of
            slots, such as (slots, KV heads, head dim), each slot is a page.
        slots: `page * page_size + slot` of each token, int64. An array of int32 is copied first, in one more launch.
        positions: int32 of each token, the position of its key in its request: beside `batch_indices`, or beside
            `slots` for an attention that rotates keys.
        batch_indices: in place of `slots`, the request of each token, int32, as FlashInfer's
            `append_paged_kv_cache` takes them; below 0, or at a position below 0, nothing is written.
        page_indptr, page_indices: the pages of the requests in compressed rows, int32: (requests + 1) prefix sums of
            page counts, and pages in the pool.
        block_table: in place of these, (requests, pages per request), int32, without gaps.
        k_scale, v_scale: what readers multiply stored keys and values by: numbers, or float32 of (KV heads). An array
            of one element is one for all heads, in one more launch.
        attention: an attention over transformed keys (`Plan(stores_transformed=True)`) or over a `kv_format`, whose
            transforms are applied.
        kv_format: in place of an attention, the format of the pools by its name, without transforms.
        k_side, v_side: pools of side data of a `kv_format` that has any.
        status: uint32 or int32 of one element, to which a kernel adds the number of tokens that it skipped, since their
            place is outside of the pool or of the table. On the CPU such a token is an error.
        q: queries of the same tokens, (tokens, query heads, head dim) of the type of `k`, which the transforms of
            `attention` change in the same launch.
        q_out: where they go, in any type; by default they are changed in place.
        q_rest, q_rest_out: elements of queries that are only converted, and where they go, as `q` and `q_out`.
        q_scale: what readers multiply written queries by: a number, or float32 of (query heads).
        stream: the address of a CUDA stream; by default the current one of torch, else the default stream.

    Raises:
        InvalidTensor: shapes, types or devices that do not fit; on the CPU a place outside of the pool.
        InvalidArgument: no place, or two.
    """
    heads = k.shape[-2] if hasattr(k, "shape") and len(k.shape) > 1 else 1
    if kv_format is not None:
        if attention is not None:
            raise InvalidArgument("kv_format is given beside an attention, which has its own")
        check_tensor("k", k, 3)
        dims, dtype = (k.shape[2], k.shape[2] if v is None else v.shape[2]), dtype_name(k)
        key = AttentionKey("full", None, device_name(k), heads, heads, *dims, dtype, dtype, kv_format)
        attention = _kept(key._replace(values_in_keys=v is None))
    _native.append(
        k,
        v,
        k_pool,
        v_pool,
        as_int64(slots, stream),
        kv_layout=kv_layout,
        positions=positions,
        attention=attention,
        k_scale=per_head(k_scale, heads, stream),
        v_scale=per_head(v_scale, heads, stream),
        stream=stream,
        k_side=k_side,
        v_side=v_side,
        batch_indices=batch_indices,
        page_indptr=page_indptr,
        page_indices=page_indices,
        block_table=block_table,
        status=status,
        q=q,
        q_out=q_out,
        q_rest=q_rest,
        q_rest_out=q_rest_out,
        q_scale=per_head(q_scale, 1 if q is None else q.shape[1], stream),
    )


def places(
    rotated_at: Any, batch_indices: Any, positions: Any, page_indptr: Any, page_indices: Any, pool: Any, kv_layout: Any
) -> dict[str, Any]:
    """The keywords of `append` for tokens at positions of requests: by slots, which passes of torch find, where keys
    are rotated by positions in other memory. `pool` is that of keys."""
    if rotated_at.data_ptr() == positions.data_ptr():
        given = {"batch_indices": batch_indices, "page_indptr": page_indptr, "page_indices": page_indices}
        return {"positions": positions.int(), **{name: x.int() for name, x in given.items()}}
    page_size = pool.shape[-2 if kv_layout == "HND" else -3]
    page = page_indptr[batch_indices.clamp(min=0)] + positions // page_size
    slots = page_indices[page.clamp(0, len(page_indices) - 1)].long() * page_size + positions % page_size
    slots = slots.masked_fill((batch_indices < 0) | (positions < 0), -1)
    return {"slots": slots, "positions": rotated_at.int().contiguous()}
