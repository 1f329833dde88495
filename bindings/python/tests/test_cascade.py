"""Cascades: keys that requests share, level by level, on the CPU."""

import numpy as np
import pytest
import reference

import attn_rs

RNG = np.random.default_rng(5)
HOW = {"qo_heads": 4, "kv_heads": 2, "head_dim": 8, "dtype": "float32", "device": "cpu"}
ragged, paged = attn_rs.Batch.ragged, attn_rs.Batch.paged
# three requests: all share a prompt, the first two an example, each has keys of its own
QO = [0, 1, 3, 4]
GROUPS = [[0, 4], [0, 3, 4], QO]


def normal(*shape):
    return RNG.standard_normal(shape).astype("float32")


def check(plan, k, v, keys, pool=lambda x: x):
    """Runs the plan, and compares each request with its keys, given as rows of `k` and `v`."""
    q = normal(QO[-1], 4, 8)
    o, lse = plan.run(q, pool(k), pool(v), return_lse=True)
    for request, rows in enumerate(keys):
        own = slice(QO[request], QO[request + 1])
        want, want_lse = reference.attention(q[own], k[rows], v[rows], reference.causal)
        np.testing.assert_allclose(o[own], want, atol=2e-6)
        np.testing.assert_allclose(lse[own], want_lse, atol=2e-6)


def ragged_levels(prompt=80):
    """The prompt is last in memory."""
    ends = [[30, 30 + prompt], [20, 26, 26], [0, 5, 11, 20]]
    keys = [[*range(30, 30 + prompt), *example, *own] for example, own in (
        (range(20, 26), range(5)), (range(20, 26), range(5, 11)), ((), range(11, 20)))]  # fmt: skip
    return attn_rs.Batch.cascade(QO, [ragged(*level) for level in zip(GROUPS, ends, strict=True)]), keys


def test_ragged_levels():
    batch, keys = ragged_levels()
    assert repr(batch) == "<attn_rs.Batch of 3 requests, cascade>"
    k, v = normal(110, 2, 8), normal(110, 2, 8)
    check(attn_rs.Plan(batch, "causal", **HOW), k, v, keys)


def paged_levels(prompt):
    page = {"page_size": 4, "num_pages": 40}
    levels = [
        paged(GROUPS[0], [0, prompt], range(prompt), [4], **page),
        paged(GROUPS[1], [0, 1, 1], np.array([37]), [4, 1], **page),
        paged(GROUPS[2], [0, 2, 3, 4], [38, 30, 39, 31], [1, 4, 2], **page),
    ]
    first = [range(4 * prompt), range(148, 152)]
    keys = [[*first[0], *first[1], *range(152, 156), 120], [*first[0], *first[1], *range(156, 160)],
            [*first[0], 124, 125]]  # fmt: skip
    return attn_rs.Batch.cascade(tuple(QO), tuple(levels)), keys


def test_paged_levels_are_updated_within_a_capacity():
    batch, keys = paged_levels(20)
    k, v = normal(160, 2, 8), normal(160, 2, 8)
    pool = lambda x: x.reshape(40, 4, 2, 8)  # noqa: E731
    check(attn_rs.Plan(batch, "causal", **HOW), k, v, keys, pool)
    capacity = attn_rs.Capacity(3, 400, qo_len=2, qo_tokens=4, page_size=4, num_pages=40, levels=3)
    plan = attn_rs.Plan(batch, "causal", capacity=capacity, **HOW)
    for prompt in (20, 3, 25):
        batch, keys = paged_levels(prompt)
        plan.update(batch)
        check(plan, k, v, keys, pool)
    plan.update(paged([0, 2], [0, 1], [7], [3], page_size=4, num_pages=40))
    q = normal(2, 4, 8)
    np.testing.assert_allclose(
        plan.run(q, pool(k), pool(v)), reference.attention(q, k[28:31], v[28:31], reference.causal)[0], atol=2e-6
    )


def test_ragged_levels_within_a_capacity():
    batch, keys = ragged_levels()
    capacity = attn_rs.Capacity(3, 400, qo_len=2, levels=3, kv_memory_tokens=200)
    plan = attn_rs.Plan(batch, "causal", capacity=capacity, **HOW)
    k, v = normal(200, 2, 8), normal(200, 2, 8)
    for prompt in (80, 7):
        batch, keys = ragged_levels(prompt)
        plan.update(batch)
        check(plan, k, v, keys)


def test_capacities_have_defaults():
    of = lambda **how: repr(attn_rs.Capacity(8, 100, **how))  # noqa: E731
    for how, text in [
        ({}, "qo_len: 1, qo_tokens: 8"),
        ({"qo_tokens": 20}, "qo_len: 20, qo_tokens: 20"),
        ({"qo_len": 3}, "qo_len: 3, qo_tokens: 24"),
        ({"qo_len": 3, "qo_tokens": 20}, "qo_len: 3, qo_tokens: 20"),
        ({"levels": 2}, "levels: 2"),
        ({"kv_memory_tokens": 50}, "kv_memory_tokens: Some(50)"),
    ]:
        assert text in of(**how), (how, of(**how))


def test_what_is_refused():
    cascade = attn_rs.Batch.cascade
    ends = ragged([0, 4], [0, 9])
    own = ragged(QO, [9, 10, 11, 12])
    table = attn_rs.Batch.block_table(QO, [[0], [1], [2]], [3, 3, 3], page_size=4, num_pages=40)
    in_pages = paged(QO, [0, 1, 2, 3], [0, 1, 2], [1, 1, 1], page_size=4, num_pages=40)
    for error, text, make in [
        (attn_rs.InvalidBatch, r"levels\[1\] is a block table", lambda: cascade(QO, [in_pages, table])),
        (attn_rs.InvalidBatch, r"levels\[0\] is a cascade", lambda: cascade(QO, [cascade(QO, [own])])),
        (attn_rs.InvalidArgument, r"levels\[1\] is of the type `int`", lambda: cascade(QO, [own, 3])),
        (attn_rs.InvalidArgument, "levels is of the type `Batch`", lambda: cascade(QO, own)),
        (attn_rs.InvalidBatch, "level", lambda: attn_rs.Plan(cascade(QO, []), **HOW)),
        (attn_rs.InvalidBatch, "level", lambda: attn_rs.Plan(cascade(QO, [ends, in_pages]), **HOW)),
        (attn_rs.InvalidBatch, "level", lambda: attn_rs.Plan(cascade(QO, [ragged([0, 2, 4], [0, 1, 2])]), **HOW)),
        (attn_rs.InvalidArgument, "kv_memory_tokens are those of ragged",
         lambda: attn_rs.Capacity(1, 9, page_size=4, num_pages=3, kv_memory_tokens=9)),
        (attn_rs.InvalidArgument, "levels is out of range", lambda: attn_rs.Capacity(1, 9, levels=-1)),
    ]:  # fmt: skip
        with pytest.raises(error, match=text):
            make()
    plan = attn_rs.Plan(ragged([0, 4], [0, 9]), capacity=attn_rs.Capacity(3, 100, qo_tokens=4), **HOW)
    with pytest.raises(attn_rs.InvalidBatch, match="level"):
        plan.update(cascade(QO, [ends, own]))
