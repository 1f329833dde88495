"""The ops that a serving engine needs around attention, on tensors of torch, numpy and others.

They merge states over disjoint keys, gather, copy, swap and convert pages of keys and values, and pack masks into bits.
On a CUDA device an op launches and returns. A CUDA graph can capture it after a first call, which loads its kernels.

All tensors of a call are on one device. Outputs share no memory with other tensors of the call; those that are not
given are new memory of the library and the device of the first tensor. `stream` is the address of a CUDA stream, by
default the current one of torch, else the default stream. `status` is one word, uint32 or int32, to which kernels add
the number of entries that they skip, since they are outside of a pool or a page table; on the CPU such an entry is an
error. An array of uint8 may be of bool.

What does not fit raises InvalidTensor or InvalidArgument, and nothing is written then.
"""

import math
from typing import Any

from . import _native
from ._arrays import check_count, check_tensor, device_name, dtype_name, empty, is_base_2, named, run_op
from ._errors import InvalidArgument
from ._rotate import rotate, rotate_append

__all__ = [
    "copy_pages",
    "copy_pages_between",
    "gather",
    "lse_from_base_2",
    "lse_to_base_2",
    "merge_state",
    "merge_state_in_place",
    "merge_states",
    "merge_sums",
    "packbits",
    "pages_to_x_packed",
    "rotate",
    "rotate_append",
    "segment_packbits",
    "swap_in",
    "swap_out",
    "x_packed_to_pages",
]


def merge_state(
    a: Any,
    lse_a: Any,
    b: Any,
    lse_b: Any,
    *,
    out: Any = None,
    lse: Any = None,
    lse_base: Any = "e",
    stream: int | None = None,
) -> tuple[Any, Any]:
    """Merges two states over disjoint keys, such as `Plan.run(.., partial=True, return_lse=True)` returns.

    With `m = max(lse_a, lse_b)` and `w = exp(lse - m)` the output is `(w_a a + w_b b) / (w_a + w_b)`, and its
    log-sum-exp `m + ln(w_a + w_b)`. A state without keys (`lse` of -inf) changes nothing, whatever its output holds;
    where neither has keys, the output is 0. At most one of the two may include a sink.

    Args:
        a, b: outputs, (tokens, heads, dim) in float16, bfloat16 or float32, both of one type.
        lse_a, lse_b: their log-sum-exps, (tokens, heads) in float32.
        out, lse: where the merged state goes, as `a` and `lse_a`; by default new memory.
        lse_base: `"e"`, or 2 for log-sum-exps in base 2, as FlashInfer has them: three more launches.

    Returns:
        The output and its log-sum-exps.
    """
    check_tensor("a", a, 3)
    out = empty(a, a.shape) if out is None else out
    lse = empty(a, a.shape[:2], "float32") if lse is None else lse
    if base_2 := is_base_2(lse_base):
        lse_a, lse_b = lse_a * math.log(2), lse_b * math.log(2)
    run_op(_native.merge_state, a=a, lse_a=lse_a, b=b, lse_b=lse_b, out=out, lse=lse, stream=stream)
    if base_2:
        lse_to_base_2(lse, stream=stream)
    return out, lse


def merge_state_in_place(
    a: Any, lse_a: Any, b: Any, lse_b: Any, *, mask: Any = None, lse_base: Any = "e", stream: int | None = None
) -> None:
    """Merges the state `b`, `lse_b` into `a`, `lse_a`, as `merge_state`.

    Args:
        mask: (tokens) in uint8 or bool: tokens of 0 stay as they are. By default all are merged.
    """
    if base_2 := is_base_2(lse_base):
        lse_b = lse_b * math.log(2)
        lse_from_base_2(lse_a, stream=stream)
    run_op(_native.merge_state_in_place, a=a, lse_a=lse_a, b=b, lse_b=lse_b, mask=mask, stream=stream)
    if base_2:
        lse_to_base_2(lse_a, stream=stream)


def merge_states(
    o: Any, lse: Any, *, out: Any = None, out_lse: Any = None, lse_base: Any = "e", stream: int | None = None
) -> tuple[Any, Any]:
    """Merges any number of states over disjoint keys, none included, as `merge_state`.

    Args:
        o: outputs, (tokens, states, heads, dim) in float16, bfloat16 or float32.
        lse: their log-sum-exps, (tokens, states, heads) in float32.
        out, out_lse: where the merged state goes, (tokens, heads, dim) of the type of `o` and (tokens, heads) in
            float32; by default new memory.

    Returns:
        The output and its log-sum-exps.
    """
    check_tensor("o", o, 4)
    tokens, _, heads, dim = o.shape
    out = empty(o, (tokens, heads, dim)) if out is None else out
    out_lse = empty(o, (tokens, heads), "float32") if out_lse is None else out_lse
    lse = lse * math.log(2) if (base_2 := is_base_2(lse_base)) else lse
    run_op(_native.merge_states, o=o, lse=lse, out=out, out_lse=out_lse, stream=stream)
    if base_2:
        lse_to_base_2(out_lse, stream=stream)
    return out, out_lse


def merge_sums(a: Any, b: Any, *, out: Any = None, stream: int | None = None) -> Any:
    """Adds outputs that were not divided by their sums of weights, which merge by addition.

    Args:
        a, b: (tokens, heads, dim) in float16, bfloat16 or float32, both of one type.
        out: where the sum goes, as `a`; by default new memory.

    Returns:
        The sum.
    """
    check_tensor("a", a, 3)
    out = empty(a, a.shape) if out is None else out
    run_op(_native.merge_sums, a=a, b=b, out=out, stream=stream)
    return out


def lse_to_base_2(lse: Any, *, stream: int | None = None) -> None:
    """Converts log-sum-exps, (tokens) or (tokens, heads) in float32, from natural log to base 2, in place."""
    run_op(_native.lse_to_base_2, lse=lse, stream=stream)


def lse_from_base_2(lse: Any, *, stream: int | None = None) -> None:
    """Converts log-sum-exps, (tokens) or (tokens, heads) in float32, from base 2, as FlashInfer has them, to natural
    log, in place."""
    run_op(_native.lse_from_base_2, lse=lse, stream=stream)


def gather(
    k_pool: Any,
    v_pool: Any,
    kv_indptr: Any,
    *,
    block_table: Any = None,
    page_indptr: Any = None,
    page_indices: Any = None,
    kv_layout: str = "NHD",
    tokens: int | None = None,
    dtype: Any = None,
    attention: _native.Attention | None = None,
    k: Any = None,
    v: Any = None,
    k_scale: Any = 1.0,
    v_scale: Any = 1.0,
    k_side: Any = None,
    v_side: Any = None,
    out_k_side: Any = None,
    out_v_side: Any = None,
    status: Any = None,
    stream: int | None = None,
) -> tuple[Any, Any]:
    """Gathers the pages of requests into packed keys and values, request by request.

    Args:
        k_pool, v_pool: pools as `kv_layout` says (`Plan`); `v_pool` is None for one pool.
        kv_indptr: (requests + 1) in int32, from 0: prefix sums of the numbers of keys to gather, from the first key of
            each request on.
        block_table: (requests, pages) in int32: the pages of each request; what is past them is never read.
        page_indptr, page_indices: the pages instead as compressed rows, in int32: (requests + 1) prefix sums, and the
            pages of all requests.
        tokens: rows of new memory, by default the last of `kv_indptr`. On a device it is given, since the host does not
            wait for `kv_indptr`; rows past the last key are not written.
        dtype: of new memory, by default that of the pools, which are then copied as they are stored if scales are 1;
            else float16, bfloat16 or float32.
        attention: `plan.attention` of a plan with a `kv_format`, which decodes the rows; its transforms do not run.
        k, v: where keys and values go, (tokens, KV heads, head dim); by default new memory.
        k_scale, v_scale: what stored elements are multiplied by: a number, or one a KV head in float32.
        k_side, v_side: pools of the side data of a `kv_format`; without `attention` it is copied to `out_k_side` and
            `out_v_side`, (tokens, KV heads, bytes) in uint8.

    Returns:
        Keys and values; values are None for a latent cache.
    """
    latent = str(kv_layout) == "latent"
    if k is None or (v is None and not latent):
        fused, heads_first = _order(kv_layout)
        check_tensor("k_pool", k_pool, 5 if fused else 4)
        tokens = check_count("tokens", _tokens(kv_indptr) if tokens is None else tokens)
        if dtype is None and attention is not None and dtype_name(k_pool) == "uint8":
            raise InvalidArgument("dtype is None; rows of a `kv_format` are decoded to float16, bfloat16 or float32")
        name = dtype_name(k_pool) if dtype is None else named(dtype)
        if dtype is not None and name not in _ELEMENTS:
            raise InvalidArgument(f"dtype is `{name}`; there are {', '.join(_ELEMENTS)}")
        heads = k_pool.shape[-3 if heads_first else -2]
        if isinstance(attention, _native.Attention):
            dims = attention.heads[2:]
        else:
            dims = k_pool.shape[-1], _last("v_pool", v_pool, k_pool)
        k = empty(k_pool, (tokens, heads, dims[0]), name) if k is None else k
        v = empty(k_pool, (tokens, heads, dims[1]), name) if v is None and not latent else v
    run_op(
        _native.gather,
        k_pool=k_pool,
        v_pool=v_pool,
        kv_indptr=kv_indptr,
        block_table=block_table,
        page_indptr=page_indptr,
        page_indices=page_indices,
        kv_layout=kv_layout,
        attention=attention,
        k=k,
        v=v,
        k_scale=k_scale,
        v_scale=v_scale,
        k_side=k_side,
        v_side=v_side,
        out_k_side=out_k_side,
        out_v_side=out_v_side,
        status=status,
        stream=stream,
    )
    return k, v


def _tokens(kv_indptr: Any) -> int:
    """The last of some prefix sums."""
    check_tensor("kv_indptr", kv_indptr, 1)
    if device_name(kv_indptr) != "cpu":
        raise InvalidArgument("tokens is None and kv_indptr is on a device; give `tokens`, or `k` and `v`")
    return int(kv_indptr[-1]) if kv_indptr.shape[0] else 0


def copy_pages(
    k_pool: Any,
    v_pool: Any,
    pairs: Any,
    *,
    kv_layout: str = "NHD",
    k_side: Any = None,
    v_side: Any = None,
    status: Any = None,
    stream: int | None = None,
) -> None:
    """Copies pages within pools: copy-on-write, beam search. No page may be written twice, or both written and read.

    Args:
        k_pool, v_pool: pools as `kv_layout` says (`Plan`); `v_pool` is None for one pool.
        pairs: (pairs, 2) in int32: from and to. It may be in host memory, such as an array of numpy, also for pools on
            a device; it is checked and passed with the launch then.
        k_side, v_side: pools of side data, which are copied along.
    """
    pools = {"k_pool": k_pool, "v_pool": v_pool, "k_side": k_side, "v_side": v_side}
    run_op(_native.copy_pages, **pools, pairs=pairs, kv_layout=kv_layout, status=status, stream=stream)


def copy_pages_between(
    from_k: Any,
    from_v: Any,
    to_k: Any,
    to_v: Any,
    pairs: Any,
    *,
    from_layout: str = "NHD",
    to_layout: str = "NHD",
    from_k_side: Any = None,
    from_v_side: Any = None,
    to_k_side: Any = None,
    to_v_side: Any = None,
    status: Any = None,
    stream: int | None = None,
) -> None:
    """Copies pages from one pool to another with the same page size, heads and type.

    Args:
        from_k, from_v, to_k, to_v: pools as `from_layout` and `to_layout` say (`Plan`).
        pairs: (pairs, 2) in int32: a page of the first pool and one of the second, as in `copy_pages`.
        from_k_side, from_v_side, to_k_side, to_v_side: pools of side data, which are copied along.
    """
    run_op(
        _native.copy_pages_between,
        from_k=from_k,
        from_v=from_v,
        to_k=to_k,
        to_v=to_v,
        pairs=pairs,
        from_layout=from_layout,
        to_layout=to_layout,
        from_k_side=from_k_side,
        from_v_side=from_v_side,
        to_k_side=to_k_side,
        to_v_side=to_v_side,
        status=status,
        stream=stream,
    )


def swap_out(
    k_pool: Any,
    v_pool: Any,
    host_k: Any,
    host_v: Any,
    pairs: Any,
    *,
    kv_layout: str = "NHD",
    host_layout: str = "NHD",
    k_side: Any = None,
    v_side: Any = None,
    host_k_side: Any = None,
    host_v_side: Any = None,
    stream: int | None = None,
) -> None:
    """Copies pages of a pool on a device to a pool on the host, on as many multiprocessors as saturate the bus. The
    host may read them once the stream has reached the copy.

    Args:
        k_pool, v_pool: pools as `kv_layout` says (`Plan`).
        host_k, host_v: pools on the host as `host_layout` says. For a CUDA device they are tensors of torch with
            `pin_memory=True`; others are refused.
        pairs: (pairs, 2) in int32: a page on the device and one on the host, as in `copy_pages`.
        k_side, v_side, host_k_side, host_v_side: pools of side data, which are copied along.
    """
    pools = {"k_pool": k_pool, "v_pool": v_pool, "k_side": k_side, "v_side": v_side}
    host = {"host_k": host_k, "host_v": host_v, "host_k_side": host_k_side, "host_v_side": host_v_side}
    how = {"kv_layout": kv_layout, "host_layout": host_layout, "stream": stream}
    run_op(_native.swap_out, **pools, **host, pairs=pairs, **how)


def swap_in(
    host_k: Any,
    host_v: Any,
    k_pool: Any,
    v_pool: Any,
    pairs: Any,
    *,
    kv_layout: str = "NHD",
    host_layout: str = "NHD",
    k_side: Any = None,
    v_side: Any = None,
    host_k_side: Any = None,
    host_v_side: Any = None,
    stream: int | None = None,
) -> None:
    """Copies pages of a pool on the host back to a pool on a device, with the arguments of `swap_out`; `pairs` are a
    page on the host and one on the device."""
    pools = {"k_pool": k_pool, "v_pool": v_pool, "k_side": k_side, "v_side": v_side}
    host = {"host_k": host_k, "host_v": host_v, "host_k_side": host_k_side, "host_v_side": host_v_side}
    how = {"kv_layout": kv_layout, "host_layout": host_layout, "stream": stream}
    run_op(_native.swap_in, **pools, **host, pairs=pairs, **how)


def x_packed_to_pages(
    k: Any,
    v: Any,
    k_pool: Any = None,
    v_pool: Any = None,
    *,
    kv_layout: str = "NHD",
    stream: int | None = None,
) -> tuple[Any, Any]:
    """Converts a cache in the layout of vLLM's first kernels to pools. Block `i` becomes page `i`.

    Args:
        k: (blocks, KV heads, head dim / x, slots, x).
        v: (blocks, KV heads, head dim, slots), of the same type.
        k_pool, v_pool: pools as `kv_layout` says (`Plan`); by default new memory.

    Returns:
        The pools; the second is None for one pool.
    """
    check_tensor("k", k, 5)
    check_tensor("v", v, 4)
    blocks, heads, chunks, slots, x = k.shape
    fused, heads_first = _order(kv_layout)
    rows = (heads, slots) if heads_first else (slots, heads)
    if k_pool is None:
        k_pool = empty(k, (blocks, *((2,) if fused else ()), *rows, chunks * x))
    if v_pool is None and not fused:
        v_pool = empty(k, (blocks, *rows, v.shape[2]))
    run_op(_native.x_packed_to_pages, k=k, v=v, k_pool=k_pool, v_pool=v_pool, kv_layout=kv_layout, stream=stream)
    return k_pool, v_pool


def pages_to_x_packed(
    k_pool: Any,
    v_pool: Any,
    k: Any = None,
    v: Any = None,
    *,
    kv_layout: str = "NHD",
    stream: int | None = None,
) -> tuple[Any, Any]:
    """The inverse of `x_packed_to_pages`.

    Args:
        k_pool, v_pool: pools as `kv_layout` says (`Plan`); `v_pool` is None for one pool.
        k, v: as in `x_packed_to_pages`; by default new memory, with an `x` of 16 bytes.

    Returns:
        `k` and `v`.
    """
    fused, heads_first = _order(kv_layout)
    check_tensor("k_pool", k_pool, 5 if fused else 4)
    blocks, dim = k_pool.shape[0], k_pool.shape[-1]
    heads, slots = k_pool.shape[-3:-1] if heads_first else k_pool.shape[-2:-4:-1]
    x = 16 // k_pool.dtype.itemsize
    k = empty(k_pool, (blocks, heads, dim // x, slots, x)) if k is None else k
    v = empty(k_pool, (blocks, heads, _last("v_pool", v_pool, k_pool), slots)) if v is None else v
    run_op(_native.pages_to_x_packed, k_pool=k_pool, v_pool=v_pool, k=k, v=v, kv_layout=kv_layout, stream=stream)
    return k, v


def packbits(bools: Any, *, bitorder: str = "little", out: Any = None, stream: int | None = None) -> Any:
    """Packs bools into bits, eight a byte. The last byte is padded with 0.

    Args:
        bools: (n) in uint8 or bool; nonzero is true.
        bitorder: `"little"`: the first bool is the lowest bit of a byte, or `"big"`.
        out: where they go, at least (n / 8, rounded up) in uint8; bytes past those stay as they are. By default new
            memory.

    Returns:
        The bytes.
    """
    check_tensor("bools", bools, 1)
    out = empty(bools, (-(-bools.shape[0] // 8),), "uint8") if out is None else out
    run_op(_native.packbits, bools=bools, bitorder=bitorder, out=out, stream=stream)
    return out


def segment_packbits(
    bools: Any,
    indptr: Any,
    *,
    bitorder: str = "little",
    out: Any = None,
    out_indptr: Any = None,
    stream: int | None = None,
) -> tuple[Any, Any]:
    """Packs segments of bools into bits. The bits of each segment begin at a byte.

    Args:
        bools: (n) in uint8 or bool; nonzero is true.
        indptr: (segments + 1) in int32, from 0: prefix sums of the lengths of segments.
        bitorder: `"little"`: the first bool is the lowest bit of a byte, or `"big"`.
        out: where they go, at least ((n + 7 segments) / 8, rounded down) in uint8; bytes past the last segment stay as
            they are. By default new memory, where these are 0.
        out_indptr: where the prefix sums of bytes go, (segments + 1) in int32; by default new memory.

    Returns:
        The bytes, and the prefix sums of the bytes of segments.
    """
    check_tensor("bools", bools, 1)
    check_tensor("indptr", indptr, 1)
    size = (bools.shape[0] + 7 * max(indptr.shape[0] - 1, 0)) // 8
    out = empty(bools, (size,), "uint8", zero=True) if out is None else out
    out_indptr = empty(bools, tuple(indptr.shape), "int32") if out_indptr is None else out_indptr
    keywords = {"bools": bools, "indptr": indptr, "bitorder": bitorder, "out": out, "out_indptr": out_indptr}
    run_op(_native.segment_packbits, **keywords, stream=stream)
    return out, out_indptr


_ELEMENTS = ("float16", "bfloat16", "float32", "float8_e4m3fn", "float8_e5m2", "uint8")


def _last(name: str, values: Any, keys: Any) -> int:
    """Elements of a value; without values of their own they are in the pool of keys."""
    if values is None:
        return int(keys.shape[-1])
    check_tensor(name, values, 4)
    return int(values.shape[-1])


def _order(kv_layout: Any) -> tuple[bool, bool]:
    """Whether one pool has keys and values, and whether heads come before slots; the call refuses what is no layout."""
    text = str(kv_layout)
    return text.startswith("fused"), text.endswith("HND")
