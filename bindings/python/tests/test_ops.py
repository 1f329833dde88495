"""The ops around attention on numpy's arrays, against numpy."""

import numpy as np
import pytest
import reference

import attn_rs
from attn_rs import _native, ops

RNG = np.random.default_rng(2)


def normal(*shape, dtype="float32"):
    return RNG.standard_normal(shape).astype(dtype)


def close(a, b, tolerance=2e-6):
    np.testing.assert_allclose(np.asarray(a, dtype=np.float64), b, atol=tolerance, rtol=tolerance)


def refused(error, text, run):
    with pytest.raises(error, match=text) as caught:
        run()
    assert isinstance(caught.value, attn_rs.AttnError)


def merged(o, lse):
    """States along axis 1, in float64."""
    o, lse = np.asarray(o, dtype=np.float64), np.asarray(lse, dtype=np.float64)
    most = lse.max(axis=1, initial=-np.inf, keepdims=True)
    weights = np.exp(lse - np.where(np.isfinite(most), most, 0.0))
    total = weights.sum(axis=1)
    used = np.where(weights[..., None] > 0, o, 0.0)  # a state without keys may hold NaN
    out = (used * weights[..., None]).sum(axis=1) / np.where(total > 0, total, 1.0)[..., None]
    with np.errstate(divide="ignore"):
        return out, np.where(np.isfinite(most), most, 0.0)[:, 0] + np.log(total)


def states(tokens, count, heads, dim, dtype="float32"):
    o, lse = normal(tokens, count, heads, dim, dtype=dtype), 4 * normal(tokens, count, heads)
    lse[RNG.random(lse.shape) < 0.2] = -np.inf
    o[np.isneginf(lse)] = np.nan
    return o, lse


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 2e-6), ("float16", 2e-3)])
@pytest.mark.parametrize(("tokens", "heads", "dim"), [(5, 3, 7), (1, 1, 128), (0, 2, 8), (3, 4, 1)])
def test_two_states(dtype, tolerance, tokens, heads, dim):
    o, lse = states(tokens, 2, heads, dim, dtype)
    (a, b), (lse_a, lse_b) = (np.moveaxis(x, 1, 0) for x in (o, lse))
    got, got_lse = ops.merge_state(a, lse_a, b, lse_b)
    want, want_lse = merged(o, lse)
    assert (got.dtype, got.shape, got_lse.dtype) == (a.dtype, a.shape, np.float32)
    close(got, want, tolerance)
    close(got_lse, want_lse)
    into, lse_into = np.zeros_like(got), np.zeros((heads, tokens), dtype="float32").T
    assert ops.merge_state(a, lse_a, b, lse_b, out=into, lse=lse_into)[0] is into
    np.testing.assert_array_equal(into, got)
    np.testing.assert_array_equal(lse_into, got_lse)
    mask = RNG.random(tokens) < 0.5
    a, lse_a = a.copy(), lse_a.copy()
    before, lse_before = a.copy(), lse_a.copy()
    ops.merge_state_in_place(a, lse_a, b, lse_b, mask=mask)
    np.testing.assert_array_equal(a, np.where(mask[:, None, None], got, before))
    np.testing.assert_array_equal(lse_a, np.where(mask[:, None], got_lse, lse_before))
    ops.merge_state_in_place(before, lse_before, b, lse_b)
    np.testing.assert_array_equal(before, got)


@pytest.mark.parametrize("count", [0, 1, 5])
def test_many_states(count):
    o, lse = states(4, count, 3, 9)
    got, got_lse = ops.merge_states(o, lse)
    want, want_lse = merged(o, lse)
    close(got, want)
    close(got_lse, want_lse)


def test_partial_runs_merge_to_the_whole():
    q, k, v = normal(3, 4, 8), normal(9, 2, 8), normal(9, 2, 8)
    how = {"qo_heads": 4, "kv_heads": 2, "head_dim": 8, "dtype": "float32", "device": "cpu"}
    parts = []
    for keys in (slice(0, 5), slice(5, 9)):
        plan = attn_rs.Plan(attn_rs.Batch.ragged([0, 3], [0, keys.stop - keys.start]), **how)
        parts.append(plan.run(q, k[keys], v[keys], partial=True, return_lse=True))
    (a, lse_a), (b, lse_b) = parts
    o, lse = ops.merge_state(a, lse_a, b, lse_b)
    want, want_lse = reference.attention(q, k, v)
    close(o, want)
    close(lse, want_lse)


def test_sums_and_bases():
    a, b = normal(3, 2, 5), normal(3, 2, 5)
    np.testing.assert_array_equal(ops.merge_sums(a, b), a + b)
    for lse in (normal(5), normal(5, 3)[::2]):
        before = lse.copy()
        ops.lse_to_base_2(lse)
        close(lse, before / np.log(2.0))
        ops.lse_from_base_2(lse)
        close(lse, before)


def test_states_in_base_2():
    o, lse = normal(5, 3, 4, 8), normal(5, 3, 4)
    base_2 = lse / np.float32(np.log(2))
    want, want_lse = ops.merge_states(o, lse)
    got, got_lse = ops.merge_states(o, base_2, lse_base=2)
    a, lse_a = ops.merge_state(o[:, 0], base_2[:, 0], o[:, 1], base_2[:, 1], lse_base=2)
    ops.merge_state_in_place(a, lse_a, o[:, 2], base_2[:, 2], lse_base=2)
    for merged, states in ((got, got_lse), (a, lse_a)):
        np.testing.assert_allclose(merged, want, atol=1e-5)
        np.testing.assert_allclose(states * np.log(2), want_lse, atol=1e-5)


def test_merges_are_refused_by_name():
    a, lse = normal(3, 2, 5), normal(3, 2)
    error = attn_rs.InvalidTensor
    refused(
        error,
        "lse_a is of float64; tensors are",
        lambda: ops.merge_state(a, lse.astype("float64"), a, lse),
    )
    refused(error, "b.o has 2 tokens|b.o", lambda: ops.merge_state(a, lse, a[:2], lse))
    refused(error, "b.o is f16", lambda: ops.merge_state(a, lse, a.astype("float16"), lse))
    refused(error, "a has the shape .* 3 dimensions", lambda: ops.merge_state(a[0], lse, a, lse))
    refused(error, "out shares memory with a", lambda: ops.merge_state(a, lse, a, lse, out=a))
    refused(error, "lse shares memory with lse_b", lambda: ops.merge_state(a, lse.copy(), a, lse, lse=lse))
    refused(error, "a shares memory with b", lambda: ops.merge_state_in_place(a, lse, a, lse))
    refused(error, "mask", lambda: ops.merge_state_in_place(a, lse, a + 1, lse + 1, mask=np.ones(2, dtype="uint8")))
    refused(
        error,
        "mask is of int32; it is of uint8 or bool",
        lambda: ops.merge_state_in_place(a, lse, a + 1, lse + 1, mask=np.ones(3, dtype="int32")),
    )
    frozen = a.copy()
    frozen.flags.writeable = False
    refused(error, "out is read-only", lambda: ops.merge_state(a, lse, a, lse, out=frozen))
    refused(error, "lse_b is None", lambda: ops.merge_state(a, lse, a, None))
    refused(error, "lse is of int32", lambda: ops.lse_to_base_2(np.ones(3, dtype="int32")))
    refused(attn_rs.InvalidArgument, "stream is given", lambda: ops.merge_sums(a, a, stream=3))
    with pytest.raises(TypeError, match="outt"):
        ops.merge_sums(a, a, outt=a)
    # what the package would never pass
    unknown = lambda **how: _native.merge_sums(a=a, b=a, out=a.copy(), **how)  # noqa: E731
    refused(
        attn_rs.InvalidArgument,
        "`streem` is no argument of `merge_sums`; did you mean `stream`",
        lambda: unknown(streem=1),
    )
    refused(
        attn_rs.InvalidArgument,
        "`whatever` is no argument of `merge_sums`; there are stream, a, b, out",
        lambda: unknown(whatever=1),
    )


LAYOUTS = ["NHD", "HND", "fused NHD", "fused HND", "latent"]


def pools(layout, pages, slots, heads, dim, dtype="float32"):
    """Pools of a layout: what a call takes, and keys and values as views in the order of NHD."""
    fused = normal(pages, 2, slots, heads, dim, dtype=dtype)
    if layout == "latent":
        k = np.ascontiguousarray(fused[:, 0])
        return (k, None), (k, None)
    heads_first = layout.endswith("HND")
    fused = np.ascontiguousarray(fused.swapaxes(2, 3)) if heads_first else fused
    k, v = (fused[:, 0], fused[:, 1]) if layout.startswith("fused") else (fused[:, 0].copy(), fused[:, 1].copy())
    order = (lambda x: x.swapaxes(1, 2)) if heads_first else (lambda x: x)
    return ((fused, None) if layout.startswith("fused") else (k, v)), (order(k), order(v))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_pages_are_copied(layout):
    given, views = pools(layout, 7, 3, 2, 5)
    pairs = np.array([[1, 4], [6, 0], [2, 5]], dtype=np.int32)
    want = [None if x is None else x.copy() for x in views]
    for x in want:
        if x is not None:
            x[pairs[:, 1]] = x[pairs[:, 0]]
    ops.copy_pages(*given, pairs, kv_layout=layout)
    for x, y in zip(views, want):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_pages_are_copied_between_pools(layout):
    to_layout = "latent" if layout == "latent" else "HND"
    (given, views), (to, to_views) = pools(layout, 7, 3, 2, 5), pools(to_layout, 4, 3, 2, 5)
    pairs = np.array([[6, 0], [1, 3]], dtype=np.int32)
    before = [None if x is None else x.copy() for x in to_views]
    for run, how in [
        (
            lambda **how: ops.copy_pages_between(*given, *to, pairs, **how),
            {"from_layout": layout, "to_layout": to_layout},
        ),
        (lambda **how: ops.swap_out(*given, *to, pairs, **how), {"kv_layout": layout, "host_layout": to_layout}),
        (lambda **how: ops.swap_in(*given, *to, pairs, **how), {"host_layout": layout, "kv_layout": to_layout}),
    ]:
        for x, y in zip(to_views, before):
            if x is not None:
                x[:] = y
        run(**how)
        for x, y, old in zip(views, to_views, before):
            if x is not None:
                np.testing.assert_array_equal(y[[0, 3]], x[[6, 1]])
                np.testing.assert_array_equal(y[1:3], old[1:3])


def test_side_data_is_copied_along():
    k, v = (RNG.integers(0, 256, (5, 2, 3, 8)).astype("uint8") for _ in range(2))
    sides = [RNG.integers(0, 256, (5, 2, 3, 4)).astype("uint8") for _ in range(2)]
    want = [x[1].copy() for x in (k, v, *sides)]
    ops.copy_pages(k, v, np.array([[1, 3]], dtype=np.int32), k_side=sides[0], v_side=sides[1])
    for x, y in zip((k, v, *sides), want):
        np.testing.assert_array_equal(x[3], y)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_pages_are_gathered(layout, dtype):
    given, views = pools(layout, 9, 4, 2, 5, dtype)
    lens, counts = [0, 6, 4, 9], [0, 2, 1, 3]
    ends, page_ends = np.cumsum([0, *lens]).astype("int32"), np.cumsum([0, *counts]).astype("int32")
    pages = RNG.permutation(9)[:6].astype("int32")
    table = np.full((4, 3), -1, dtype="int32")
    for i, count in enumerate(counts):
        table[i, :count] = pages[page_ends[i] : page_ends[i + 1]]

    def rows(x):
        of = lambda i: x[pages[page_ends[i] : page_ends[i + 1]]].reshape(-1, *x.shape[2:])[: lens[i]]  # noqa: E731
        return np.concatenate([of(i) for i in range(4)])

    for how in ({"block_table": table}, {"page_indptr": page_ends, "page_indices": pages}):
        k, v = ops.gather(*given, ends, kv_layout=layout, **how)
        np.testing.assert_array_equal(k, rows(views[0]))
        assert k.dtype == dtype
        assert (v is None) == (layout == "latent")
        if v is not None:
            np.testing.assert_array_equal(v, rows(views[1]))
        k, v = ops.gather(*given, ends, kv_layout=layout, dtype="float32", k_scale=0.5, **how)
        np.testing.assert_array_equal(k, rows(views[0]).astype("float32") * 0.5)
        k = np.full((25, 2, 5), 7.0, dtype="float32")
        scales = {"k_scale": np.array([2.0, 3.0], dtype="float32"), "v_scale": 1.0}
        ops.gather(*given, ends, kv_layout=layout, k=k, v=None if v is None else k.copy(), **scales, **how)
        np.testing.assert_array_equal(k[:19], rows(views[0]).astype("float32") * np.array([[2.0], [3.0]], "float32"))
        assert (k[19:] == 7).all()


def test_rows_of_a_format_are_gathered():
    how = {"qo_heads": 2, "kv_heads": 2, "head_dim": 8, "dtype": "float32", "device": "cpu", "kv_format": "int8"}
    batch = attn_rs.Batch.block_table([0, 6], [[2, 0]], [6], page_size=4, num_pages=3)
    plan = attn_rs.Plan(batch, **how)
    new_k, new_v = normal(6, 2, 8), normal(6, 2, 8)
    pool = lambda last: np.zeros((3, 4, 2, last), dtype="uint8")  # noqa: E731
    k, v, k_side, v_side = pool(8), pool(8), pool(4), pool(4)
    slots = np.array([8, 9, 10, 11, 0, 1], dtype="int64")
    sides = {"k_side": k_side, "v_side": v_side}
    plan.append(new_k, new_v, k, v, slots, **sides)
    table = {"block_table": np.array([[2, 0]], dtype="int32")}
    ends = np.array([0, 6], dtype="int32")
    got_k, got_v = ops.gather(k, v, ends, attention=plan.attention, dtype="float32", **sides, **table)
    close(got_k, new_k, 0.05)
    close(got_v, new_v, 0.05)
    out_k_side, out_v_side = (np.zeros((6, 2, 4), dtype="uint8") for _ in range(2))
    codes, _ = ops.gather(k, v, ends, **sides, **table, out_k_side=out_k_side, out_v_side=out_v_side)
    np.testing.assert_array_equal(codes, np.concatenate([k[2], k[0, :2]]))
    np.testing.assert_array_equal(out_v_side, np.concatenate([v_side[2], v_side[0, :2]]))
    refused(attn_rs.InvalidArgument, "dtype is None", lambda: ops.gather(k, v, ends, attention=plan.attention, **table))
    refused(attn_rs.InvalidTensor, "u8", lambda: ops.gather(k, v, ends, dtype="float32", **table))


def test_ops_on_pages_are_refused_by_name():
    (k, v), _ = pools("NHD", 5, 2, 3, 4)
    pairs, ends = np.array([[0, 1]], dtype="int32"), np.array([0, 3], dtype="int32")
    tensor, argument = attn_rs.InvalidTensor, attn_rs.InvalidArgument
    refused(tensor, "pairs is of int64; it is of int32", lambda: ops.copy_pages(k, v, pairs.astype("int64")))
    refused(tensor, r"pairs has the shape \[2\]; it has \[any, 2\]", lambda: ops.copy_pages(k, v, pairs[0]))
    refused(
        attn_rs.AttnError, r"to\[0\]` is 5; it must be 0 to 4", lambda: ops.copy_pages(k, v, pairs + np.int32([[0, 4]]))
    )
    refused(tensor, "v_pool is None", lambda: ops.copy_pages(k, None, pairs))
    refused(tensor, "v_pool is given", lambda: ops.copy_pages(k, v, pairs, kv_layout="latent"))
    refused(tensor, "v_pool shares memory with k_pool", lambda: ops.copy_pages(k, k, pairs))
    refused(argument, "kv_layout is `NDH`; there are `NHD`", lambda: ops.copy_pages(k, v, pairs, kv_layout="NDH"))
    refused(argument, "kv_layout is of the type `int`", lambda: ops.copy_pages(k, v, pairs, kv_layout=3))
    refused(tensor, "to_k shares memory with from_k", lambda: ops.copy_pages_between(k, v, k, v.copy(), pairs))
    refused(tensor, "from.k has 2 slots", lambda: ops.copy_pages_between(k, v, k[:, :1].copy(), v[:, :1].copy(), pairs))
    refused(tensor, "status", lambda: ops.copy_pages(k, v, pairs, status=np.zeros(0, dtype="uint32")))
    table = np.zeros((1, 2), dtype="int32")
    gather = lambda *given, **how: ops.gather(k, v, *given, **how)  # noqa: E731
    refused(tensor, "block_table is None", lambda: gather(ends))
    refused(argument, "pages are given by `block_table` alone", lambda: gather(ends, page_indptr=ends))
    refused(argument, "pages are given by", lambda: gather(ends, block_table=table, page_indices=table[0]))
    refused(argument, "dtype is `float63`; there are", lambda: gather(ends, block_table=table, dtype="float63"))
    refused(argument, "tokens is -1; it is 0 or more", lambda: gather(ends, block_table=table, tokens=-1))
    refused(tensor, "kv_indptr is of int64", lambda: gather(ends.astype("int64"), block_table=table))
    refused(attn_rs.AttnError, "request 0 has 2 pages", lambda: gather(np.int32([0, 5]), block_table=table))
    refused(argument, "k_scale is of the type `str`", lambda: gather(ends, block_table=table, k_scale="1"))
    refused(
        argument,
        "attention is of the type `int`; it is an `Attention`",
        lambda: ops.gather(k, v, ends, block_table=table, k=k[:3, 0], v=v[:3, 0], attention=3),
    )


@pytest.mark.parametrize("layout", LAYOUTS[:4])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_x_packed_caches(layout, dtype):
    x = 16 // np.dtype(dtype).itemsize
    k, v = normal(3, 2, 2, 5, x, dtype=dtype), normal(3, 2, 7, 5, dtype=dtype)
    if layout.startswith("fused"):
        v = normal(3, 2, 2 * x, 5, dtype=dtype)
    k_pool, v_pool = ops.x_packed_to_pages(k, v, kv_layout=layout)
    views = (k_pool[:, 0], k_pool[:, 1]) if v_pool is None else (k_pool, v_pool)
    keys, values = (pool.swapaxes(1, 2) if layout.endswith("HND") else pool for pool in views)
    np.testing.assert_array_equal(keys, k.transpose(0, 3, 1, 2, 4).reshape(3, 5, 2, 2 * x))
    np.testing.assert_array_equal(values, v.transpose(0, 3, 1, 2))
    for got, want in zip(ops.pages_to_x_packed(k_pool, v_pool, kv_layout=layout), (k, v)):
        np.testing.assert_array_equal(got, want)
    refused(
        attn_rs.InvalidTensor,
        "packed v",
        lambda: ops.x_packed_to_pages(k, v[:, :1].copy(), k_pool, v_pool, kv_layout=layout),
    )
    refused(attn_rs.InvalidTensor, "k_pool shares memory with k", lambda: ops.x_packed_to_pages(k, v, k))


@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize("dtype", ["bool", "uint8"])
def test_masks_are_packed(order, dtype):
    for count in (0, 1, 8, 43):
        bools = (RNG.random(count) < 0.5).astype(dtype)
        np.testing.assert_array_equal(ops.packbits(bools, bitorder=order), np.packbits(bools, bitorder=order))
    bools, indptr = (RNG.random(43) < 0.5).astype(dtype), np.array([0, 3, 3, 20, 43], dtype="int32")
    parts = [np.packbits(bools[a:b], bitorder=order) for a, b in zip(indptr, indptr[1:])]
    out, ends = ops.segment_packbits(bools, indptr, bitorder=order)
    np.testing.assert_array_equal(ends, np.cumsum([0, *map(len, parts)]))
    np.testing.assert_array_equal(out[: ends[-1]], np.concatenate(parts))
    assert not out[ends[-1] :].any()


def test_masks_are_refused_by_name():
    bools, tensor = np.ones(9, dtype=bool), attn_rs.InvalidTensor
    refused(tensor, "bools is of float32; it is of uint8 or bool", lambda: ops.packbits(np.ones(3, dtype="float32")))
    refused(tensor, "bools has the shape", lambda: ops.packbits(bools.reshape(3, 3)))
    refused(tensor, "bools has .* no gaps", lambda: ops.packbits(np.ones(18, dtype=bool)[::2]))
    refused(tensor, "`out` has 1 entries; at least 2", lambda: ops.packbits(bools, out=np.zeros(1, dtype="uint8")))
    refused(tensor, "out is of int8", lambda: ops.packbits(bools, out=np.zeros(2, dtype="int8")))
    refused(tensor, "out shares memory with bools", lambda: ops.packbits(bools.view("uint8"), out=bools.view("uint8")))
    refused(
        attn_rs.InvalidArgument,
        "bitorder is `middle`; there are `little`, `big`",
        lambda: ops.packbits(bools, bitorder="middle"),
    )
    refused(attn_rs.AttnError, "indptr", lambda: ops.segment_packbits(bools, np.int32([0, 5, 3])))
