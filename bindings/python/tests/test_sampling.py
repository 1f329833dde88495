"""Sampling and verification on numpy's arrays, against numpy."""

import numpy as np
import pytest

import attn_rs
from attn_rs import sampling

RNG = np.random.default_rng(3)


def normal(*shape, dtype="float32"):
    return RNG.standard_normal(shape).astype(dtype)


def refused(error, text, run):
    with pytest.raises(error, match=text) as caught:
        run()
    assert isinstance(caught.value, attn_rs.AttnError)


def positions(rows, first=0):
    return np.full(rows, first, dtype="int64")


def softmax(logits, temperature=1.0):
    logits = np.asarray(logits, dtype=np.float64) / np.reshape(temperature, (-1, 1))
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def kept(probs, top_k=0, top_p=1.0, min_p=0.0, order="top_k_first"):
    """Which tokens the filters keep, and their probabilities."""
    rows = len(probs)
    top_k, top_p, min_p = (np.broadcast_to(np.reshape(x, (-1, 1)), (rows, 1)) for x in (top_k, top_p, min_p))
    falling = np.argsort(-probs, axis=1, kind="stable")
    rank = np.argsort(falling, axis=1, kind="stable")
    keep = (top_k <= 0) | (rank < top_k)
    base = np.where(keep, probs, 0.0) if order == "top_k_first" else probs
    base = base / base.sum(axis=1, keepdims=True)
    sorted_base = np.take_along_axis(base, falling, axis=1)
    before = np.take_along_axis(np.cumsum(sorted_base, axis=1) - sorted_base, rank, axis=1)
    keep &= (top_p >= 1) | (before < top_p)
    keep &= probs >= min_p * probs.max(axis=1, keepdims=True)
    chosen = np.where(keep, probs, 0.0)
    return keep, chosen / chosen.sum(axis=1, keepdims=True)


FILTERS = [
    {},
    {"top_k": 5},
    {"top_p": 0.7},
    {"min_p": 0.2},
    {"top_k": 7, "top_p": 0.6, "min_p": 0.05},
    {"top_k": 7, "top_p": 0.6, "order": "joint"},
    {"top_k": np.int32([1, 0, 3]), "top_p": np.float32([1.0, 0.5, 0.9]), "min_p": np.float32([0.0, 0.1, 0.3])},
]


@pytest.mark.parametrize("filters", FILTERS)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_filters(filters, dtype):
    logits = 2 * normal(3, 41, dtype=dtype)
    keep, want = kept(softmax(logits), **filters)
    got = sampling.softmax(logits, **filters)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, want, atol=2e-6)
    np.testing.assert_array_equal(got > 0, keep)
    masked = sampling.mask_logits(logits, **filters)
    np.testing.assert_array_equal(masked, np.where(keep, logits.astype("float32"), -np.inf))
    probs = (3 * softmax(logits)).astype("float32")
    out = np.zeros_like(probs)
    assert sampling.renorm_probs(probs, out=out, **filters) is out
    np.testing.assert_allclose(out, want, atol=2e-6)


def test_temperatures_masks_and_indices():
    logits, temperature = normal(3, 41), np.float32([0.5, 1.0, 3.0])
    np.testing.assert_allclose(
        sampling.softmax(logits, temperature=temperature), softmax(logits, temperature), atol=2e-6
    )
    allowed = RNG.random((3, 41)) < 0.5
    words = np.packbits(allowed, axis=1, bitorder="little")
    words = np.pad(words, ((0, 0), (0, 8 - words.shape[1]))).view("uint32")
    want = softmax(np.where(allowed, logits, -np.inf))
    for mask in (words, words.view("int32")):
        np.testing.assert_allclose(sampling.softmax(logits, token_mask=mask), want, atol=2e-6)
    indices = np.int32([2, 2, 0, 1])
    np.testing.assert_allclose(sampling.softmax(logits, indices=indices), softmax(logits)[indices], atol=2e-6)


def test_draws_are_determined_by_seeds_and_positions():
    logits, seeds = normal(6, 99), np.arange(6, dtype="uint64") + (1 << 63)
    at = positions(6, 5)
    first = sampling.sample(logits, at, seeds=seeds)
    assert first.ids.dtype == np.int32
    assert first.log_probs is None and first.probs is None and first.top_ids is None
    np.testing.assert_array_equal(at, positions(6, 6))
    again = sampling.sample(logits, positions(6, 5), seeds=seeds.view("int64"))
    np.testing.assert_array_equal(again.ids, first.ids)
    # neither on other rows nor on the place among them
    swapped = sampling.sample(logits[::-1].copy(), positions(6, 5), seeds=seeds[::-1].copy())
    np.testing.assert_array_equal(swapped.ids[::-1], first.ids)
    draws = [sampling.sample(logits, at, seeds=seeds).ids for _ in range(20)]
    assert len({tuple(draw) for draw in draws}) > 10, "each position draws anew"
    others = sampling.sample(logits, positions(6, 5), seeds=seeds + np.uint64(6)).ids
    assert (others != first.ids).any()
    out = np.zeros(6, dtype="int32")
    assert sampling.sample(logits, positions(6), out=out, temperature=0).ids is out
    np.testing.assert_array_equal(out, logits.argmax(axis=1))


@pytest.mark.parametrize("filters", [{}, {"top_k": 6, "top_p": 0.8}, {"temperature": 0.5, "min_p": 0.05}])
def test_the_distribution(filters):
    logits, draws = normal(1, 17), 8_000
    temperature = filters.get("temperature", 1.0)
    rest = {name: value for name, value in filters.items() if name != "temperature"}
    _, want = kept(softmax(logits, temperature), **rest)
    how = {"indices": np.zeros(draws, dtype="int32"), "seeds": np.arange(draws, dtype="uint64")}
    ids = sampling.sample(logits, positions(draws), **how, **filters).ids
    got = np.bincount(ids, minlength=17) / draws
    np.testing.assert_allclose(got, want[0], atol=5 * np.sqrt(0.25 / draws))
    assert (got[want[0] == 0] == 0).all()
    if "temperature" not in filters:
        ids = sampling.sample_probs(softmax(logits).astype("float32"), positions(draws), **how, **filters).ids
        np.testing.assert_allclose(np.bincount(ids, minlength=17) / draws, want[0], atol=5 * np.sqrt(0.25 / draws))


def test_log_probs_probs_and_the_likeliest():
    logits = normal(4, 33)
    scaled, kept_probs = softmax(logits, 0.7), kept(softmax(logits, 0.7), top_k=5)[1]
    how = {"temperature": 0.7, "top_k": 5, "seeds": np.arange(4, dtype="uint64")}
    for of, want in (("scaled", scaled), ("kept", kept_probs)):
        out = sampling.sample(
            logits, positions(4), log_probs_of=of, return_log_probs=True, return_probs=True, top=6, **how
        )
        np.testing.assert_allclose(out.log_probs, np.log(want[np.arange(4), out.ids]), atol=1e-5)
        np.testing.assert_allclose(out.probs, kept_probs, atol=2e-6)
        np.testing.assert_array_equal(out.top_ids, np.argsort(-scaled, axis=1)[:, :6])
        np.testing.assert_allclose(out.top_log_probs, -np.sort(-np.log(scaled), axis=1)[:, :6], atol=1e-5)
    ids, log_probs = np.zeros((4, 40), dtype="int32"), np.zeros((4, 40), dtype="float32")
    out = sampling.sample(logits, positions(4), top_ids=ids, top_log_probs=log_probs)
    assert out.top_ids is ids
    assert (ids[:, 33:] == -1).all() and np.isneginf(log_probs[:, 33:]).all()


@pytest.mark.parametrize("dtype", ["uint32", "int32"])
def test_penalties(dtype):
    logits, counts = normal(2, 9), np.zeros((2, 9), dtype="uint32")
    counts[0, 1], counts[0, 2], counts[1, 3] = 3, 1 << 31, (1 << 31) + 2
    before, counts = counts.copy(), counts.view(dtype)
    drawn, seen = before & 0x7FFFFFFF, before > 0
    want = np.where(seen, np.where(logits > 0, logits / 1.5, logits * 1.5), logits)
    want = want - 0.3 * (drawn > 0) - np.float32([[0.1], [0.2]]) * drawn
    penalties = {"repetition": 1.5, "presence": 0.3, "frequency": np.float32([0.1, 0.2])}
    out = sampling.sample(logits, positions(2), counts=counts, return_probs=True, **penalties)
    np.testing.assert_allclose(out.probs, softmax(want), atol=2e-6)
    before[[0, 1], out.ids] += 1
    np.testing.assert_array_equal(counts.view("uint32"), before)
    for given in ({}, {"counts": None}):
        refused(
            attn_rs.AttnError,
            "`penalties` needs `counts`",
            lambda given=given: sampling.sample(logits, positions(2), presence=0.1, **given),
        )


def test_chains_have_the_distribution_of_the_target():
    requests, vocab = 20_000, 7
    draft, target = softmax(normal(1, vocab)), softmax(normal(1, vocab))
    draft_ids = RNG.choice(vocab, size=(requests, 1), p=draft[0]).astype("int32")
    of = lambda x, rows: np.ascontiguousarray(np.broadcast_to(x[0], (requests, rows, vocab)), dtype="float32")  # noqa: E731
    at, seeds = positions(requests, 3), np.arange(requests, dtype="uint64")
    out = sampling.verify_chain(of(draft, 1), draft_ids, of(target, 2), at, seeds=seeds)
    got = np.bincount(out.ids[:, 0], minlength=vocab) / requests
    np.testing.assert_allclose(got, target[0], atol=5 * np.sqrt(0.25 / requests))
    np.testing.assert_array_equal(out.accepted, out.emitted)
    np.testing.assert_array_equal(at, 3 + out.emitted + 1)
    passed = out.emitted == 1
    np.testing.assert_array_equal(out.ids[passed, 0], draft_ids[passed, 0])
    assert (out.ids[~passed, 1] == -1).all() and (out.ids[passed, 1] >= 0).all()
    again = sampling.verify_chain(of(draft, 1), draft_ids, of(target, 2), positions(requests, 3), seeds=seeds)
    np.testing.assert_array_equal(again.ids, out.ids)


def test_chains_of_certain_drafts():
    one = lambda *ids: np.eye(5, dtype="float32")[list(ids)]  # noqa: E731
    draft_ids = np.int32([[1, 2, 3], [1, 4, 3], [2, -1, -1]])
    target = np.stack([one(1, 2, 3, 0), one(1, 2, 3, 0), one(2, 4, 0, 0)])
    draft = np.stack([one(1, 2, 3), one(1, 4, 3), one(2, 0, 0)])
    out = sampling.verify_chain(draft, draft_ids, target, positions(3))
    np.testing.assert_array_equal(out.ids, [[1, 2, 3, 0], [1, 2, -1, -1], [2, 4, -1, -1]])
    np.testing.assert_array_equal(out.accepted, [3, 2, 1])
    np.testing.assert_array_equal(out.emitted, [3, 1, 1])


def test_trees():
    # node 0 has the children 1 and 2, and 2 has the child 3
    tree = {
        "draft_ids": np.int32([[0, 1, 2, 3]]),
        "retrieve_index": np.int32([[0, 1, 2, 3]]),
        "retrieve_next_token": np.int32([[1, -1, 3, -1]]),
        "retrieve_next_sibling": np.int32([[-1, 2, -1, -1]]),
    }
    target, at = np.eye(5, dtype="float32")[[2, 0, 3, 4]][None], positions(1, 7)
    out = sampling.verify_tree(**tree, target_probs=target, positions=at)
    np.testing.assert_array_equal(out.ids, [2, 0, 3, 4])
    np.testing.assert_array_equal(out.accept_index, [[0, 2, 3, -1]])
    assert (out.accepted[0], at[0]) == (2, 10)
    # the first token has the distribution of the target
    requests, probs = 20_000, softmax(normal(1, 5))
    many = {name: np.repeat(of, requests, axis=0) for name, of in tree.items()}
    many["retrieve_index"] = np.arange(4 * requests, dtype="int32").reshape(requests, 4)
    target = np.ascontiguousarray(np.broadcast_to(probs[0], (requests, 4, 5)), dtype="float32")
    seeds = np.arange(requests, dtype="int64")
    out = sampling.verify_tree(**many, target_probs=target, positions=positions(requests), seeds=seeds)
    got = np.bincount(out.ids.reshape(requests, 4)[:, 0], minlength=5) / requests
    np.testing.assert_allclose(got, probs[0], atol=5 * np.sqrt(0.25 / requests))
    all_of = lambda **how: sampling.verify_tree(  # noqa: E731
        **many, target_probs=target, positions=positions(requests), seeds=seeds, **how
    )
    assert all_of(threshold_acc=0.5).accepted.sum() > out.accepted.sum()
    refused(attn_rs.AttnError, "threshold_acc` is 0; it must be above 0", lambda: all_of(threshold_acc=0.0))
    out_of_range = {**tree, "retrieve_next_token": np.int32([[9, -1, -1, -1]])}
    refused(
        attn_rs.AttnError,
        r"retrieve_next_token\[0\]` is 9",
        lambda: sampling.verify_tree(**out_of_range, target_probs=target[:1], positions=at),
    )


def test_arguments_are_refused_by_name():
    logits, at, tensor = normal(3, 8), positions(3), attn_rs.InvalidTensor
    sample = lambda **how: sampling.sample(logits, at, **how)  # noqa: E731
    refused(
        TypeError, "`temprature` is no argument of `sample`; did you mean `temperature`", lambda: sample(temprature=1)
    )
    refused(TypeError, "`presence` is no argument of `softmax`", lambda: sampling.softmax(logits, presence=0.1))
    refused(
        TypeError,
        "`temperature` is no argument of `sample_probs`",
        lambda: sampling.sample_probs(np.abs(logits), at, temperature=0.5),
    )
    refused(tensor, "logits is of float64; tensors are", lambda: sampling.sample(logits.astype("float64"), at))
    refused(tensor, "logits has the shape", lambda: sampling.sample(logits[0], at))
    refused(tensor, "positions is of int32; it is of int64", lambda: sampling.sample(logits, at.astype("int32")))
    refused(tensor, r"positions has the shape \[2\]; it has \[3\]", lambda: sampling.sample(logits, at[:2].copy()))
    refused(tensor, r"top_p has the shape \[2\]; it has \[3\]", lambda: sample(top_p=np.ones(2, dtype="float32")))
    refused(tensor, "top_k is of int64; it is of int32", lambda: sample(top_k=np.ones(3, dtype="int64")))
    refused(tensor, "seeds is of float64; it is of uint64 or int64", lambda: sample(seeds=np.ones(3)))
    refused(OverflowError, "seeds is out of range", lambda: sample(seeds=-1))
    refused(TypeError, "min_p is of the type `str`; it is a number", lambda: sample(min_p="0.1"))
    refused(attn_rs.InvalidArgument, "order is `any`; there are `top_k_first`, `joint`", lambda: sample(order="any"))
    refused(
        tensor,
        r"token_mask has the shape \[3, 2\]; it has \[3, 1\]",
        lambda: sample(token_mask=np.zeros((3, 2), dtype="uint32")),
    )
    refused(
        tensor,
        r"counts has the shape \[8, 3\]; it has \[3, 8\]",
        lambda: sample(counts=np.zeros((8, 3), dtype="uint32")),
    )
    refused(attn_rs.AttnError, r"indices\[1\]` is 3; it must be 0 to 2", lambda: sample(indices=np.int32([0, 3, 1])))
    refused(attn_rs.AttnError, "top.count` is 65; it must be 1 to 64", lambda: sample(top=65))
    refused(tensor, "out shares memory with|positions shares memory with out", lambda: sample(out=at.view("int32")[:3]))
    refused(tensor, "out_probs shares memory with logits", lambda: sample(out_probs=logits))
    refused(tensor, "out has|out is", lambda: sampling.softmax(logits, out=np.zeros((3, 7), dtype="float32")))
    refused(tensor, "logits is a list", lambda: sampling.sample([[1.0]], at))
    refused(attn_rs.InvalidArgument, "top is -1; it is 0 or more", lambda: sample(top=-1))
    np.testing.assert_array_equal(at, positions(3))


def test_preparing():
    sampling.prepare("float16", device="cpu")
    sampling.prepare(np.float32, probs=True, device="cpu")
    refused(attn_rs.InvalidArgument, "dtype is `float63`", lambda: sampling.prepare("float63", device="cpu"))
    refused(attn_rs.InvalidTensor, "dtype is of int32", lambda: sampling.prepare("int32", device="cpu"))
    refused(attn_rs.InvalidArgument, "the device is `tpu`", lambda: sampling.prepare("float32", device="tpu"))
