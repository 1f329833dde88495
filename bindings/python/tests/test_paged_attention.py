"""Attention over block tables in one call, rotations, and batches of compressed rows by lengths, on the CPU."""

import numpy as np
import pytest
import reference

import attn_rs

RNG = np.random.default_rng(11)
PAGE, PAGES = 4, 12
K, V = (RNG.standard_normal((PAGES, PAGE, 2, 8)).astype("float32") for _ in range(2))


def ints(*numbers):
    return np.array(numbers, dtype=np.int32)


def normal(*shape):
    return RNG.standard_normal(shape).astype("float32")


def causal(qo, kv):
    return kv <= qo


def check(o, lse, q, indptr, table, lens, **how):
    for request, m in enumerate(lens):
        rows = slice(indptr[request], indptr[request + 1])
        k, v = (pool[table[request]].reshape(-1, 2, 8)[:m] for pool in (K, V))
        want = reference.attention(q[rows], k, v, causal, **how)
        np.testing.assert_allclose(o[rows], want[0], atol=3e-6)
        np.testing.assert_allclose(lse[rows], want[1] / np.log(2), atol=3e-6)


@pytest.mark.parametrize("indptr", [[0, 1, 2, 3], [0, 2, 4, 6], [0, 3, 3, 7]])
def test_steps(indptr):
    lens, table = ints(5, 9, 4), RNG.permutation(PAGES)[:9].reshape(3, 3).astype("int32")
    for step in range(3):
        q, sink = normal(indptr[-1], 4, 8), normal(4)
        qo = None if len(set(np.diff(indptr))) == 1 else ints(*indptr)
        how = {"qo_indptr": qo, "scale": 0.4, "lse_base": 2, "return_lse": True, "params": {"sink.logits": sink}}
        o, lse = attn_rs.paged_attention(q, K, V, table, lens, "causal + sink", **how)
        check(o, lse, q, indptr, table, lens, scale=0.4, sink=sink)
        lens, table = lens + 1, np.roll(table, step)
    o, lse = np.empty_like(q), np.empty((len(q), 4), np.float32)
    got = attn_rs.paged_attention(q, K, V, table, lens, qo_indptr=qo, out=o, lse=lse, lse_base=2)
    assert got is o
    check(o, lse, q, indptr, table, lens)


def test_layouts_and_scales():
    q, table, lens = normal(2, 4, 8), ints(3, 5, 1, 0).reshape(2, 2), ints(7, 3)
    want = attn_rs.paged_attention(q, K, V, table, lens)
    heads_first = [x.swapaxes(1, 2).copy() for x in (K, V)]
    for pools, layout in ((heads_first, "HND"), ((np.stack([K, V], 1), None), "fused NHD"),
                          ((np.stack(heads_first, 1), None), "fused HND")):  # fmt: skip
        np.testing.assert_array_equal(attn_rs.paged_attention(q, *pools, table, lens, kv_layout=layout), want)
    each = np.full(2, 2.0, dtype=np.float32)
    o = attn_rs.paged_attention(q, K, V, table, lens, scale=8**-0.5 / 2, k_scale=each, v_scale=np.ones(1, np.float32))
    np.testing.assert_allclose(o, want, atol=2e-6)
    latent = normal(PAGES, PAGE, 1, 8)
    o = attn_rs.paged_attention(q, latent, None, table, lens, kv_layout="latent", value_dim=6)
    for request, m in enumerate(lens):
        keys = latent[table[request]].reshape(-1, 1, 8)[:m]
        want = reference.attention(q[request : request + 1], keys, keys[..., :6])[0]
        np.testing.assert_allclose(o[request : request + 1], want, atol=2e-6)


def test_what_is_refused():
    q, table, lens = normal(3, 4, 8), ints(3, 5, 1, 0).reshape(2, 2), ints(7, 3)
    for error, text, call in [
        (attn_rs.InvalidTensor, "3 queries of 2 requests", lambda: attn_rs.paged_attention(q, K, V, table, lens)),
        (attn_rs.InvalidTensor, "2 dimensions", lambda: attn_rs.paged_attention(q[:2], K, V, table[0], lens)),
        (attn_rs.InvalidBatch, "keys", lambda: attn_rs.paged_attention(q[:2], K, V, table, lens + 8)),
        (attn_rs.InvalidVariant, "nothing", lambda: attn_rs.paged_attention(q[:2], K, V, table, lens, "nothing")),
        (attn_rs.InvalidArgument, "lse_base", lambda: attn_rs.paged_attention(q[:2], K, V, table, lens, lse_base=3)),
    ]:
        with pytest.raises(error, match=text):
            call()


@pytest.mark.parametrize("dim", [None, 8])
def test_rotations(dim):
    x, at = normal(5, 3, 16), ints(0, 7, 3, 100, 1)
    got = attn_rs.ops.rotate(x, at, "rope(theta=1000.0)", dim=dim)
    n = dim or 16
    angle = at[:, None] * 1000.0 ** (-np.arange(n // 2) / (n // 2))
    cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
    a, b = x[..., : n // 2], x[..., n // 2 : n]
    want = np.concatenate([a * cos - b * sin, b * cos + a * sin, x[..., n:]], -1)
    np.testing.assert_allclose(got, want, atol=2e-5)
    table = normal(101, n)
    for interleaved in (False, True, True):
        got = attn_rs.ops.rotate(x, at, cos_sin=table, interleaved=interleaved)
        cos, sin = table[at][:, None, : n // 2], table[at][:, None, n // 2 :]
        a, b = (x[..., :n:2], x[..., 1:n:2]) if interleaved else (x[..., : n // 2], x[..., n // 2 : n])
        parts = a * cos - b * sin, b * cos + a * sin
        rows = np.stack(parts, -1).reshape(*x.shape[:2], n) if interleaved else np.concatenate(parts, -1)
        np.testing.assert_allclose(got, np.concatenate([rows, x[..., n:]], -1), atol=2e-5)
        table += 1
    with pytest.raises(attn_rs.InvalidArgument, match="one of them"):
        attn_rs.ops.rotate(x, at)
    with pytest.raises(attn_rs.Unsupported, match="rotary dim of 12"):
        attn_rs.ops.rotate(x, at, "rope", dim=12)


def test_compressed_rows_by_lengths():
    q, how = normal(3, 4, 8), {"qo_heads": 4, "kv_heads": 2, "head_dim": 8, "dtype": "float32", "device": "cpu"}
    sizes = {"page_size": PAGE, "num_pages": PAGES}
    # the first request has a page more than its keys need, and rows begin at 1
    rows = [0, 1, 2, 3], [1, 4, 5, 6], [9, 3, 5, 7, 1, 0]
    batch = attn_rs.Batch.paged(*rows, kv_lens=[8, 1, 3], **sizes)
    o, lse = attn_rs.Plan(batch, "causal", **how).run(q, K, V, return_lse=True, lse_base=2)
    check(o, lse, q, [0, 1, 2, 3], [[3, 5], [1], [0]], [8, 1, 3])
    for text, lens, last in (
        ("request 1 has 5 keys and 1 pages", [8, 5, 3], None),
        ("request 2 has -1 keys", [8, 1, -1], None),
        ("4 numbers and kv_lens 2", [8, 1], None),
        ("both are given", [8, 1, 3], [4, 1, 3]),
        ("neither are given", None, None),
    ):
        with pytest.raises((attn_rs.InvalidBatch, attn_rs.InvalidArgument), match=text):
            attn_rs.Batch.paged(*rows, last, kv_lens=lens, **sizes)
    for ends, text in (([0, 2, 1, 3], "request 1"), ([4, 6, 7, 8], "begin at 6 of 6"), ([-1, 2, 3, 4], "request 0")):
        with pytest.raises(attn_rs.InvalidBatch, match=text):
            attn_rs.Batch.paged([0, 1, 2, 3], ends, rows[2], kv_lens=[1, 1, 1], **sizes)
