"""Indexers on numpy's arrays, against numpy."""

import numpy as np
import pytest

import attn_rs
from attn_rs import indexer

RNG = np.random.default_rng(4)
HEADS, DIM, PAGE = 3, 32, 5
QUERIES, KEYS = [2, 0, 4, 1], [7, 3, 11, 0]
Q_ENDS, K_ENDS = (np.cumsum([0, *lens]).astype("int32") for lens in (QUERIES, KEYS))


def normal(*shape, dtype="float16"):
    return RNG.standard_normal(shape).astype(dtype)


def refused(error, text, run):
    with pytest.raises(error, match=text) as caught:
        run()
    assert isinstance(caught.value, attn_rs.AttnError)


def caches(keys):
    """The same keys in each way to give them."""
    lens = np.int32(KEYS)
    counts = [-(-n // PAGE) for n in KEYS]
    pages = RNG.permutation(8)[: sum(counts)].astype("int32")
    ends = np.cumsum([0, *counts]).astype("int32")
    pool = np.full((8, PAGE, DIM), np.nan, dtype=keys.dtype)
    table = np.full((len(KEYS), 3), -7, dtype="int32")
    for i, n in enumerate(KEYS):
        own = pages[ends[i] : ends[i + 1]]
        table[i, : len(own)] = own
        for s in range(n):
            pool[own[s // PAGE], s % PAGE] = keys[K_ENDS[i] + s]
    yield keys, {"kv_indptr": K_ENDS}
    yield pool, {"kv_lens": lens, "block_table": table}
    yield pool, {"kv_lens": lens, "page_indptr": ends, "page_indices": pages}


def products(q, keys, visible):
    """For each query token its products with the keys that it sees, (heads, keys) in float64."""
    for i, (queries, n) in enumerate(zip(QUERIES, KEYS)):
        own = keys[K_ENDS[i] : K_ENDS[i + 1]].astype(np.float64)
        for row in range(queries):
            token = Q_ENDS[i] + row
            sees = (
                {"all": n, "causal": max(n - queries + row + 1, 0)}.get(visible) if isinstance(visible, str) else None
            )
            sees = min(visible[token], n) if sees is None else sees
            yield token, q[token].astype(np.float64) @ own[:sees].T


@pytest.mark.parametrize("visible", ["causal", "all", "counts"])
def test_scores(visible):
    # one row of padding behind the queries
    q, weights, keys = (
        normal(sum(QUERIES) + 1, HEADS, DIM),
        normal(sum(QUERIES) + 1, HEADS, dtype="float32"),
        normal(21, DIM),
    )
    given = np.int32([1, 3, 0, 99, 2, 4, 0, 5]) if visible == "counts" else visible
    for cache, how in caches(keys):
        scores, counts = indexer.index_scores(q, weights, cache, Q_ENDS, visible=given, **how)
        blocks, block_counts = indexer.block_scores(q, cache, Q_ENDS, block_size=32, visible=given, **how)
        assert blocks.shape == (len(q), HEADS, 1)
        for token, of in products(q, keys, given):
            assert counts[token] == of.shape[1]
            assert block_counts[token] == (of.shape[1] > 0)
            want = (weights[token].astype(np.float64)[:, None] * np.maximum(of, 0)).sum(axis=0)
            np.testing.assert_allclose(scores[token, : of.shape[1]], want, atol=1e-4)
            if of.shape[1]:
                np.testing.assert_allclose(blocks[token, :, 0], of.max(axis=1), atol=1e-4)
        assert counts[-1] == 0
    out, lens = np.full((8, 12), 7.0, dtype="float32"), np.zeros(8, dtype="int32")
    got = indexer.index_scores(q, weights, keys, Q_ENDS, kv_indptr=K_ENDS, visible=given, scores=out, counts=lens)
    assert got[0] is out and got[1] is lens
    assert (out[-1] == 7).all()


def test_choices():
    scores = np.round(2 * normal(5, 23, dtype="float32")) / 2
    scores[0, 3], scores[1, :9] = np.nan, -np.inf
    counts = np.int32([23, 9, 4, 0, 17])
    lists, lens = indexer.select_tokens(scores, counts, 6)
    assert (lists.shape, lens.shape) == ((5, 6), (5,))
    for row, count in enumerate(counts):
        own = scores[row, :count]
        order = [at for at in np.argsort(-own, kind="stable") if own[at] > -np.inf]
        want = sorted(order[:6])
        assert lens[row] == len(want)
        np.testing.assert_array_equal(lists[row], want + [0] * (6 - len(want)))
    of_blocks = np.repeat(scores[:, None], 2, axis=1)
    of_blocks[:, 1] *= -1
    lists, lens = indexer.select_pages(of_blocks, counts, 6, first=1, last=2)
    for row, count in enumerate(counts):
        for head in range(2):
            own = of_blocks[row, head, :count]
            always = [at for at in range(count) if at < 1 or at + 2 >= count]
            order = [at for at in np.argsort(-own, kind="stable") if own[at] > -np.inf and at not in always]
            want = sorted(always + order[: 6 - len(always)])
            assert lens[row, head] == len(want)
            np.testing.assert_array_equal(lists[row, head, : len(want)], want)


def test_a_chosen_list_is_what_attention_reads():
    q, keys = normal(4, HEADS, DIM), normal(11, DIM)
    ends, kv_ends = np.int32([0, 4]), np.int32([0, 11])
    weights = np.abs(normal(4, HEADS, dtype="float32"))
    scores, counts = indexer.index_scores(q, weights, keys, ends, kv_indptr=kv_ends)
    lists, lens = indexer.select_tokens(scores, counts, 11)  # all that a query sees
    q, k, v = (
        normal(1, 4, 2, 8, dtype="float32"),
        normal(1, 11, 2, 8, dtype="float32"),
        normal(1, 11, 2, 8, dtype="float32"),
    )
    o = attn_rs.attention(q, k, v, "token_list", params={"max_tokens": 11, "tokens": lists, "count": lens})
    np.testing.assert_allclose(o, attn_rs.attention(q, k, v, "causal"), atol=2e-6)


def test_arguments_are_refused_by_name():
    q, weights, keys = normal(3, HEADS, DIM), normal(3, HEADS, dtype="float32"), normal(5, DIM)
    ends, kv_ends, tensor = np.int32([0, 3]), np.int32([0, 5]), attn_rs.InvalidTensor
    score = lambda *given, **how: indexer.index_scores(*given, **{"kv_indptr": kv_ends, **how})  # noqa: E731
    refused(tensor, "q is f32", lambda: score(q.astype("float32"), weights, keys, ends))
    refused(tensor, "index keys is f32", lambda: score(q, weights, keys.astype("float32"), ends))
    refused(tensor, "weights is f16", lambda: score(q, weights.astype("float16"), keys, ends))
    refused(tensor, "q has the shape", lambda: score(q[0], weights, keys, ends))
    refused(attn_rs.AttnError, "multiple of 32", lambda: score(q[..., :8].copy(), weights, keys, ends))
    refused(tensor, "qo_indptr is of int64", lambda: score(q, weights, keys, ends.astype("int64")))
    refused(
        attn_rs.InvalidArgument,
        "keys are given by `kv_indptr` alone",
        lambda: score(q, weights, keys, ends, kv_lens=ends),
    )
    refused(attn_rs.InvalidArgument, "keys are given by", lambda: score(q, weights, keys, ends, kv_indptr=None))
    refused(
        attn_rs.InvalidArgument,
        "visible is `some`; there are `causal`, `all`",
        lambda: score(q, weights, keys, ends, visible="some"),
    )
    refused(tensor, r"visible has the shape \[2\]; it has \[3\]", lambda: score(q, weights, keys, ends, visible=ends))
    refused(tensor, "scores shares memory with weights", lambda: score(q, weights, keys, ends, scores=weights))
    refused(attn_rs.AttnError, "visible keys or blocks", lambda: score(q, weights, keys, ends, max_keys=2))
    refused(
        attn_rs.AttnError,
        "block_size` is 16",
        lambda: indexer.block_scores(q, keys, ends, block_size=16, kv_indptr=kv_ends),
    )
    refused(
        attn_rs.InvalidArgument,
        "block_size is 0",
        lambda: indexer.block_scores(q, keys, ends, block_size=0, kv_indptr=kv_ends),
    )
    scores, counts = score(q, weights, keys, ends)
    refused(TypeError, "k is None; it is a whole number", lambda: indexer.select_tokens(scores, counts))
    refused(attn_rs.InvalidArgument, "k is 0; it is 1 or more", lambda: indexer.select_tokens(scores, counts, 0))
    refused(attn_rs.InvalidArgument, "max_keys is -1", lambda: score(q, weights, keys, ends, max_keys=-1))
    refused(tensor, "counts is of int64", lambda: indexer.select_tokens(scores, counts.astype("int64"), 2))
    refused(
        tensor,
        "lists shares memory with counts",
        lambda: indexer.select_tokens(scores, counts, lists=counts.reshape(3, 1)),
    )
    refused(
        attn_rs.AttnError,
        "first \\+ last` is 3",
        lambda: indexer.select_pages(scores[:, None].copy(), counts, 2, first=1, last=2),
    )
    with pytest.raises(TypeError, match="blocks"):
        indexer.select_tokens(scores, counts, blocks=2)


def test_preparing():
    indexer.prepare("float16", 4, 64, device="cpu")
    indexer.prepare(np.float16, 4, 64, device="cpu")
    refused(
        attn_rs.InvalidArgument, "heads is of the type `str`", lambda: indexer.prepare("float16", "4", 64, device="cpu")
    )
