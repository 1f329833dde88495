"""Ranks that are threads: what they compute together is what one plan computes."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import attn_rs
from attn_rs import parallel

HOW = {"qo_heads": 4, "kv_heads": 2, "head_dim": 8, "dtype": "float32", "device": "cpu"}


def on_ranks(ranks, run):
    """What each rank returns, each in a thread of its own."""
    with ThreadPoolExecutor(ranks) as pool:
        return list(pool.map(run, parallel.Communicator.threads(ranks, limit=30)))


def rows(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


@pytest.mark.parametrize("scatter_heads", [False, True])
@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_decode_over_interleaved_keys(ranks, scatter_heads):
    lens = [37, 1]
    q, k, v = rows(1, 2, 4, 8), rows(2, 38, 2, 8), rows(3, 38, 2, 8)
    plan = attn_rs.Plan(attn_rs.Batch.ragged([0, 1, 2], [0, 37, 38]), "sink(logits=[0, 1, 2, -1])", **HOW)
    want, want_lse = plan.run(q, k, v, return_lse=True)

    def rank(group):
        own = parallel.interleaved_lens(np.array(lens), group, 2)
        assert own.tolist() == [parallel.interleaved_lens(of, group, 2) for of in lens]
        held = [
            key
            for first, of in ((0, 37), (37, 1))
            for key in range(first, first + of)
            if (key - first) // 2 % ranks == group.rank
        ]
        assert len(held) == own.sum()
        batch = attn_rs.Batch.ragged([0, 1, 2], [0, *np.cumsum(own).tolist()])
        plan = attn_rs.Plan(batch, "sink(logits=[0, 1, 2, -1])", **HOW)
        decode = parallel.DecodeContextParallel(plan, group, 2, scatter_heads=scatter_heads)
        out = decode.run(plan, q, k[held], v[held], return_lse=True)
        group.wait()
        return out

    for number, (o, lse) in enumerate(on_ranks(ranks, rank)):
        heads = slice(number * 4 // ranks, (number + 1) * 4 // ranks) if scatter_heads else slice(0, 4)
        np.testing.assert_allclose(o, want[:, heads], atol=1e-5)
        np.testing.assert_allclose(lse, want_lse[:, heads], atol=1e-5)


@pytest.mark.parametrize("variant", ["causal", "causal + sliding_window(window=100) + soft_cap(cap=5)"])
def test_prefill_over_chunks(variant):
    lens, ends = [600, 40], [0, 600, 640]
    q, k, v = rows(1, 640, 4, 8), rows(2, 640, 2, 8), rows(3, 640, 2, 8)
    want = attn_rs.Plan(attn_rs.Batch.ragged(ends, ends), variant, **HOW).run(q, k, v)

    def rank(group):
        chunks = [parallel.PrefillContextParallel.chunks(group, of) for of in lens]
        own = [
            first + token
            for first, of in zip(ends, chunks, strict=False)
            for begin, end in of
            for token in range(begin, end)
        ]
        attention = attn_rs.Plan(attn_rs.Batch.ragged([0, 1], [0, 1]), variant, **HOW).attention
        prefill = parallel.PrefillContextParallel(attention, group, lens)
        return own, prefill.run(q[own], k[own], v[own])

    results = on_ranks(3, rank)
    assert sorted(token for own, _ in results for token in own) == list(range(640))
    for own, o in results:
        np.testing.assert_allclose(o, want[own], atol=1e-5)


@pytest.mark.parametrize("ranks", [2, 4])
def test_heads_shared_out(ranks):
    ends = [0, 30, 51]
    q, k, v = rows(1, 51, 4, 8), rows(2, 51, 2, 8), rows(3, 51, 2, 8)
    variant = "bidirectional_window(left=9, right=4)"
    want = attn_rs.Plan(attn_rs.Batch.ragged(ends, ends), variant, **HOW).run(q, k, v)

    def rank(group):
        qo, kv = parallel.HeadParallel.share(group, 4, 2)
        plan = attn_rs.Plan(attn_rs.Batch.ragged(ends, ends), variant, **{**HOW, "qo_heads": qo, "kv_heads": kv})
        heads = parallel.HeadParallel(plan, group, 4, 2)
        own = slice(*heads.tokens)
        return heads.run(q[own], k[own], v[own])

    np.testing.assert_allclose(np.concatenate(on_ranks(ranks, rank)), want, atol=1e-5)


def test_exchanges():
    def rank(group):
        own = np.full((2, 3), group.rank, dtype=np.float32)
        gathered = group.all_gather(own)
        assert (gathered == np.arange(2, dtype=np.float32)[:, None, None]).all() and gathered.shape == (2, 2, 3)
        parts = group.all_to_all(np.arange(2, dtype=np.float32)[:, None] + 10 * group.rank)
        assert parts.tolist() == [[group.rank], [10 + group.rank]]
        assert group.all_reduce(own + 1).tolist() == [[3.0] * 3] * 2

    on_ranks(2, rank)


def test_what_is_refused():
    group = parallel.Communicator.threads(3)[0]
    batch = attn_rs.Batch.ragged([0, 1], [0, 9])

    def refused(variant, match, **how):
        plan = attn_rs.Plan(batch, variant, **HOW)
        with pytest.raises(attn_rs.Unsupported, match=match):
            parallel.DecodeContextParallel(plan, group, 1, **how)

    refused("output_norm", "`output_transform`")
    refused("causal", "`qo_pos` that `causal` reads in `logits_mask` is counted over the keys of a rank")
    refused("full", "4 heads do not divide among 3 ranks", scatter_heads=True)
    attention = attn_rs.Plan(batch, "full", **HOW).attention
    with pytest.raises(attn_rs.Unsupported, match="queries see later keys"):
        parallel.PrefillContextParallel(attention, group, [900])
    with pytest.raises(attn_rs.InvalidArgument, match="less"):
        attn_rs._native.Communicator.join("cuda:0", bytes(128), 2, 2, 1.0)
    with pytest.raises(attn_rs.InvalidArgument, match="128 bytes"):
        attn_rs._native.Communicator.join("cuda:0", b"", 0, 2, 1.0)


def test_a_rank_that_aborts():
    def rank(group):
        if group.rank == 1:
            group.abort("out of memory")
            return
        with pytest.raises(attn_rs.InvalidArgument, match="rank 1 aborted the group: out of memory"):
            group.all_gather(np.zeros(4, dtype=np.float32))

    on_ranks(2, rank)
