"""Appends of numpy's arrays on the CPU: places, layouts of pools, scales."""

import numpy as np
import pytest
import reference

import attn_rs

RNG = np.random.default_rng(3)
HOW = {"qo_heads": 4, "kv_heads": 2, "head_dim": 8, "dtype": "float32", "device": "cpu"}
# the pages of two requests, and the slots of positions 2, 3, 4 of the first, 0 of the second
TABLE, PAGE = [[3, 0], [2, 1]], 4
REQUESTS, POSITIONS, SLOTS = [0, 0, 0, 1], [2, 3, 4, 0], [14, 15, 0, 8]


def normal(*shape):
    return RNG.standard_normal(shape).astype("float32")


def ints(*numbers):
    return np.array(numbers, dtype=np.int32)


def pools():
    return np.zeros((2, 5, PAGE, 2, 8), dtype=np.float32)


def refused(error, text, run):
    with pytest.raises(error, match=text) as caught:
        run()
    assert isinstance(caught.value, attn_rs.AttnError)


PLACES = {
    "slots": {"slots": np.array(SLOTS)},
    "slots of int32": {"slots": ints(*SLOTS)},
    "compressed rows": {"page_indptr": ints(0, 2, 4), "page_indices": ints(3, 0, 2, 1)},
    "block table": {"block_table": np.array(TABLE, dtype=np.int32)},
}


@pytest.mark.parametrize("kind", PLACES)
def test_places(kind):
    k, v, (k_pool, v_pool) = normal(4, 2, 8), normal(4, 2, 8), pools()
    how = dict(PLACES[kind])
    if "slots" not in how:
        how.update(batch_indices=ints(*REQUESTS), positions=ints(*POSITIONS))
    status = np.zeros(1, dtype=np.uint32)
    attn_rs.append(k, v, k_pool, v_pool, status=status, **how)
    for rows, pool in ((k, k_pool), (v, v_pool)):
        flat = pool.reshape(-1, 2, 8)
        np.testing.assert_array_equal(flat[SLOTS], rows)
        assert np.count_nonzero(flat.any(axis=(1, 2))) == 4
    assert status[0] == 0


@pytest.mark.parametrize("kind", PLACES)
def test_places_below_0_are_not_written(kind):
    k, (k_pool, v_pool) = normal(4, 2, 8), pools()
    how = dict(PLACES[kind])
    if "slots" in how:
        how["slots"] = np.where([True, False, False, True], -1, how["slots"]).astype(how["slots"].dtype)
    else:
        how.update(batch_indices=ints(-1, 0, 0, 1), positions=ints(2, 3, 4, -7))
    attn_rs.append(k, k, k_pool, v_pool, **how)
    flat = k_pool.reshape(-1, 2, 8)
    np.testing.assert_array_equal(flat[SLOTS[1:3]], k[1:3])
    assert np.count_nonzero(flat.any(axis=(1, 2))) == 2


@pytest.mark.parametrize("kv_layout", ["NHD", "HND"])
def test_pools_of_three_dimensions_have_pages_of_one_slot(kv_layout):
    k, v, q = normal(3, 2, 8), normal(3, 2, 8), normal(3, 4, 8)
    both = np.zeros((9, 2, 2, 8), dtype=np.float32)
    slots = [7, 2, 5]
    batch = attn_rs.Batch.paged([0, 3], [0, 3], slots, [1], page_size=1, num_pages=9)
    plan = attn_rs.Plan(batch, "causal", kv_layout=kv_layout, **HOW)
    for k_pool, v_pool in (np.zeros((2, 9, 2, 8), dtype=np.float32), (both[:, 0], both[:, 1])):
        plan.append(k, v, k_pool, v_pool, np.array(slots))
        np.testing.assert_array_equal(k_pool[slots], k)
        np.testing.assert_array_equal(v_pool[slots], v)
        want, _ = reference.attention(q, k, v, reference.causal)
        np.testing.assert_allclose(plan.run(q, k_pool, v_pool), want, atol=2e-6)
    table = attn_rs.Batch.paged([0, 3], [0, 1], [0], [3], page_size=PAGE, num_pages=9)
    larger = attn_rs.Plan(table, "causal", **HOW)
    refused(attn_rs.InvalidTensor, "slots", lambda: larger.run(q, k_pool, v_pool))


def test_one_pool_of_slots():
    k, v, q = normal(3, 2, 8), normal(3, 2, 8), normal(1, 4, 8)
    batch = attn_rs.Batch.paged([0, 1], [0, 3], [1, 2, 3], [1], page_size=1, num_pages=4)
    want, _ = reference.attention(q, k, v)
    for layout in ("fused NHD", "fused HND"):
        plan, pool = attn_rs.Plan(batch, "full", kv_layout=layout, **HOW), np.zeros((4, 2, 2, 8), dtype=np.float32)
        plan.append(k, v, pool, None, np.array([1, 2, 3]))
        np.testing.assert_array_equal(pool[1:], np.stack([k, v], axis=1))
        np.testing.assert_allclose(plan.run(q, pool), want, atol=2e-6)


def test_scales():
    k, v = normal(4, 2, 8), normal(4, 2, 8)
    halves, of_heads = np.float32(0.5), np.array([0.5, 4.0], dtype=np.float32)
    one = np.array([0.25], dtype=np.float32)
    numbers = [(2.0, 2.0), (2, 2.0), (halves, 0.5), (one, 0.25), (one.reshape(()), 0.25)]
    for scale, want in [*numbers, (of_heads, of_heads[:, None])]:
        k_pool, v_pool = pools()
        attn_rs.append(k, v, k_pool, v_pool, np.array(SLOTS), k_scale=scale, v_scale=of_heads)
        np.testing.assert_array_equal(k_pool.reshape(-1, 2, 8)[SLOTS], k / np.float32(want))
        np.testing.assert_array_equal(v_pool.reshape(-1, 2, 8)[SLOTS], v / of_heads[:, None])


def test_what_is_no_place():
    k, slots = normal(4, 2, 8), np.array(SLOTS)
    positions, requests, table = ints(*POSITIONS), ints(*REQUESTS), np.array(TABLE, dtype=np.int32)
    rows = {"page_indptr": ints(0, 2, 4), "page_indices": ints(3, 0, 2, 1)}
    of_requests = {"batch_indices": requests, "positions": positions}
    for error, text, how in [
        (attn_rs.InvalidArgument, "neither is given", {}),
        (attn_rs.InvalidArgument, "neither is given", {"positions": positions}),
        (attn_rs.InvalidArgument, "both are given", {"slots": slots, "block_table": table, **of_requests}),
        (attn_rs.InvalidArgument, "page_indptr is given beside slots", {"slots": slots, **rows}),
        (attn_rs.InvalidArgument, "positions is None", {"batch_indices": requests, "block_table": table}),
        (attn_rs.InvalidArgument, "page_indptr and page_indices, or block_table", of_requests),
        (attn_rs.InvalidArgument, "or block_table", {"block_table": table, **rows, **of_requests}),
        (attn_rs.InvalidArgument, "or block_table", {"page_indptr": rows["page_indptr"], **of_requests}),
        (attn_rs.InvalidTensor, "block_table is of int64", {"block_table": table.astype("int64"), **of_requests}),
        (attn_rs.InvalidTensor, "2 dimensions", {"block_table": table[0], **of_requests}),
        (attn_rs.InvalidTensor, "it has no gaps", {"block_table": table[:, ::2], **of_requests}),
        (attn_rs.InvalidTensor, "batch_indices is of int64", {**of_requests, **rows, "batch_indices": slots}),
        (attn_rs.InvalidTensor, "`requests` has 3 entries", {**of_requests, **rows, "batch_indices": requests[:3]}),
        (attn_rs.InvalidTensor, "`requests.3.` is 2", {**of_requests, **rows, "batch_indices": ints(0, 0, 0, 2)}),
        (attn_rs.InvalidTensor, "request 0 has 2 pages of 4", {**of_requests, **rows, "positions": ints(2, 8, 4, 0)}),
        (attn_rs.InvalidTensor, "`pages.1.` is 5", {**of_requests, "block_table": table + ints(0, 5)}),
        (attn_rs.InvalidTensor, "`slots.3.` is 20", {"slots": np.array([14, 15, 0, 20])}),
        (attn_rs.InvalidTensor, "status is of float32", {"slots": slots, "status": normal(1)}),
        (attn_rs.InvalidTensor, "`status` has 0 entries", {"slots": slots, "status": ints()}),
    ]:
        k_pool, v_pool = pools()
        refused(error, text, lambda: attn_rs.append(k, k, k_pool, v_pool, **how))  # noqa: B023
        assert not k_pool.any() and not v_pool.any(), text


def test_what_is_no_scale():
    k, slots, (k_pool, v_pool) = normal(4, 2, 8), np.array(SLOTS), pools()
    for error, text, scale in [
        (attn_rs.InvalidTensor, "k_scales has 3 heads", np.ones(3, dtype=np.float32)),
        (attn_rs.InvalidTensor, "k_scales", np.ones((2, 2), dtype=np.float32)),
        (attn_rs.InvalidTensor, "k_scales.* f16", np.ones(2, dtype=np.float16)),
        (attn_rs.InvalidTensor, "k_scales", np.array([1.0, -1.0], dtype=np.float32)),
        (attn_rs.InvalidTensor, "k_scale", 0.0),
        (attn_rs.InvalidTensor, "k_scale is of float64", np.ones(2)),
        (attn_rs.InvalidTensor, "k_scale.*gaps", np.ones(4, dtype=np.float32)[::2]),
        (attn_rs.InvalidArgument, "k_scale is of the type `bool`", True),
        (attn_rs.InvalidArgument, "k_scale is of the type `list`", [1.0, 2.0]),
        (attn_rs.InvalidTensor, "k_pool shares memory with k_scale", k_pool.reshape(-1)[:2]),
    ]:
        refused(error, text, lambda: attn_rs.append(k, k, k_pool, v_pool, slots, k_scale=scale))  # noqa: B023
        assert not k_pool.any(), text
    status = k_pool.view(np.uint32).reshape(-1)[:1]
    text = "k_pool shares memory with status"
    refused(attn_rs.InvalidTensor, text, lambda: attn_rs.append(k, k, k_pool, v_pool, slots, status=status))


def test_a_format_by_its_name():
    k, v, slots = normal(4, 2, 8), normal(4, 2, 8), np.array(SLOTS)
    plan = attn_rs.Plan(attn_rs.Batch.ragged([0, 1], [0, 4]), **HOW, kv_format="int8")
    made = [np.zeros((5, PAGE, 2, bytes_of), dtype=np.uint8) for bytes_of in (8, 8, 4, 4)]
    named = [pool.copy() for pool in made]
    sides = lambda pools: dict(zip(("k_side", "v_side"), pools[2:], strict=True))  # noqa: E731
    attn_rs.append(k, v, *made[:2], slots, attention=plan.attention, **sides(made))
    attn_rs.append(k, v, *named[:2], slots, kv_format="int8", **sides(named))
    for one, other in zip(made, named, strict=True):
        np.testing.assert_array_equal(one, other)
    again = (
        lambda: attn_rs.append(  # noqa: E731
            k, v, *named[:2], slots, kv_format="int8", attention=plan.attention, **sides(named)
        )
    )
    refused(attn_rs.InvalidArgument, "beside an attention", again)


def turned(x, at, interleaved=False):
    n = x.shape[-1]
    angle = np.array(at)[:, None, None] * 10000.0 ** (-np.arange(n // 2) / (n // 2))
    a, b = (x[..., ::2], x[..., 1::2]) if interleaved else (x[..., : n // 2], x[..., n // 2 :])
    parts = a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)
    return np.stack(parts, -1).reshape(x.shape) if interleaved else np.concatenate(parts, -1)


@pytest.mark.parametrize("kind", PLACES)
@pytest.mark.parametrize("by_table", [False, True])
def test_rotations_beside_appends(kind, by_table):
    q, k, v, (k_pool, v_pool) = normal(4, 4, 8), normal(4, 2, 8), normal(4, 2, 8), pools()
    how = dict(PLACES[kind])
    if "slots" not in how:
        how.update(batch_indices=ints(*REQUESTS))
    if by_table:
        angle = np.arange(6)[:, None] * 10000.0 ** (-np.arange(4) / 4)
        how.update(cos_sin=np.concatenate([np.cos(angle), np.sin(angle)], -1).astype("float32"), interleaved=True)
    else:
        how.update(expression="rope")
    given = q.copy()
    got = attn_rs.ops.rotate_append(q, k, v, k_pool, v_pool, positions=ints(*POSITIONS), k_scale=0.5, **how)
    assert got is q
    np.testing.assert_allclose(q, turned(given, POSITIONS, by_table), atol=2e-5)
    np.testing.assert_allclose(k_pool.reshape(-1, 2, 8)[SLOTS], 2 * turned(k, POSITIONS, by_table), atol=4e-5)
    np.testing.assert_array_equal(v_pool.reshape(-1, 2, 8)[SLOTS], v)
    out, rest, rest_out = np.zeros_like(q), normal(4, 4, 3), np.zeros((4, 4, 3), dtype=np.float16)
    with pytest.raises(attn_rs.InvalidTensor, match="float16|f16"):
        attn_rs.ops.rotate_append(
            q, k, v, k_pool, v_pool, positions=ints(*POSITIONS), q_out=out, q_rest=rest, q_rest_out=rest_out, **how
        )
    rest_out = np.zeros((4, 4, 3), dtype=np.float32)
    got = attn_rs.ops.rotate_append(
        given, k, v, k_pool, v_pool, positions=ints(*POSITIONS), q_out=out, q_rest=rest, q_rest_out=rest_out,
        q_scale=np.array([1, 2, 4, 8], dtype=np.float32), **how
    )  # fmt: skip
    assert got is out
    scales = np.array([1, 2, 4, 8], dtype=np.float32)[:, None]
    np.testing.assert_allclose(out * scales, q, atol=1e-5)
    np.testing.assert_allclose(rest_out * scales, rest, atol=1e-6)


def test_queries_beside_appends_are_refused():
    q, k, (k_pool, v_pool) = normal(4, 4, 8), normal(4, 2, 8), pools()
    slots, at = np.array(SLOTS), ints(*POSITIONS)
    run = attn_rs.ops.rotate_append
    refused(attn_rs.InvalidArgument, "one of them", lambda: run(q, k, k, k_pool, v_pool, slots, positions=at))
    how = {"positions": at, "expression": "rope"}
    refused(attn_rs.InvalidTensor, "tokens", lambda: run(q[:3], k, k, k_pool, v_pool, slots, **how))
    rest = {"q_rest": normal(4, 4, 2), "q_out": np.zeros_like(q)}
    refused(attn_rs.InvalidArgument, "go together", lambda: run(q, k, k, k_pool, v_pool, slots, **how, **rest))
    append = attn_rs.append
    refused(attn_rs.InvalidArgument, "q_out is given without q", lambda: append(k, k, *pools(), slots, q_out=q))
    refused(attn_rs.InvalidArgument, "without an attention", lambda: append(k, k, *pools(), slots, q=q))
    refused(attn_rs.InvalidTensor, "share", lambda: run(k_pool[:4, 0].repeat(2, 1), k, k, k_pool, v_pool, slots, **how,
        q_out=k_pool.reshape(-1, 4, 8)[:4]))  # fmt: skip
