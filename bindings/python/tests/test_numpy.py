"""Attention of numpy's arrays on the CPU, against its definition."""

import gc
import weakref

import numpy as np
import pytest
import reference

import attn_rs

RNG = np.random.default_rng(1)


def normal(*shape, dtype="float32"):
    return RNG.standard_normal(shape).astype(dtype)


def close(a, b, tolerance=2e-6):
    np.testing.assert_allclose(np.asarray(a, dtype=np.float64), b, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize(
    ("variant", "how"),
    [
        ("full", {}),
        ("causal", {"keep": reference.causal}),
        ("causal + sliding_window(window=3)", {"keep": reference.window(3)}),
        ("causal + soft_cap(cap=2)", {"keep": reference.causal, "cap": 2.0}),
    ],
)
@pytest.mark.parametrize("layout", ["bshd", "bhsd"])
@pytest.mark.parametrize(("queries", "keys"), [(7, 7), (1, 9), (5, 8), (9, 4), (0, 3), (2, 0)])
def test_a_dense_batch(variant, how, layout, queries, keys):
    shape = lambda tokens, heads: (3, tokens, heads, 8) if layout == "bshd" else (3, heads, tokens, 8)
    q, k, v = normal(*shape(queries, 4)), normal(*shape(keys, 2)), normal(*shape(keys, 2))
    o, lse = attn_rs.attention(q, k, v, variant, layout=layout, return_lse=True)
    assert o.shape == q.shape
    assert lse.shape == q.shape[:-1]
    swap = lambda x: x if layout == "bshd" else x.swapaxes(0, 1)
    for request in range(3):
        want, want_lse = reference.attention(*(swap(x[request]) for x in (q, k, v)), **how)
        close(swap(o[request]), want)
        close(swap(lse[request]), want_lse)


def test_values_may_have_another_dimension_and_the_scale_is_given():
    q, k, v = normal(2, 4, 2, 8), normal(2, 6, 2, 8), normal(2, 6, 2, 16)
    o = attn_rs.attention(q, k, v, scale=0.3)
    for request in range(2):
        close(o[request], reference.attention(q[request], k[request], v[request], scale=0.3)[0])


def test_float16_is_rounded_at_the_end():
    q, k, v = (
        normal(1, 4, 2, 8, dtype="float16"),
        normal(1, 6, 2, 8, dtype="float16"),
        normal(1, 6, 2, 8, dtype="float16"),
    )
    o = attn_rs.attention(q, k, v, "causal")
    assert o.dtype == np.float16
    close(o[0], reference.attention(q[0], k[0], v[0], reference.causal)[0], 2e-3)


def test_requests_of_different_lengths():
    ends_q, ends_k = [0, 3, 3, 4], np.array([0, 5, 7, 15])
    q, k, v = normal(4, 4, 8), normal(15, 2, 8), normal(15, 2, 8)
    o = attn_rs.attention(q, k, v, "causal", cu_seqlens_q=ends_q, cu_seqlens_k=ends_k)
    for i in range(3):
        own, keys = slice(ends_q[i], ends_q[i + 1]), slice(ends_k[i], ends_k[i + 1])
        close(o[own], reference.attention(q[own], k[keys], v[keys], reference.causal)[0])


def test_memory_of_any_strides_is_read_where_it_is():
    whole = normal(2, 5, 8, 8)
    q, k, v = whole[:, :, :4], whole[:, :, 4:6], whole[:, :, 6:]
    o = np.zeros((2, 5, 4, 8), dtype=np.float32)
    got = attn_rs.attention(q, k, v, "causal", out=o)
    assert got is o
    cache = normal(2, 3, 64, 8)  # longer than the keys in use, heads first
    close(
        attn_rs.attention(q, cache[:, :2, :9].swapaxes(1, 2), cache[:, 1:, :9].swapaxes(1, 2))[1],
        reference.attention(q[1], cache[1, :2, :9].swapaxes(0, 1), cache[1, 1:, :9].swapaxes(0, 1))[0],
    )
    close(o[1], reference.attention(q[1], k[1], v[1], reference.causal)[0])


def test_parameters_by_name_are_read_by_every_call():
    q, k, v = normal(1, 3, 4, 8), normal(1, 5, 2, 8), normal(1, 5, 2, 8)
    for sinks in (normal(4), normal(4)):
        for params in ({"sink.logits": sinks}, {"logits": sinks.tolist()}):
            o = attn_rs.attention(q, k, v, "causal + sink", params=params)
            close(o[0], reference.attention(q[0], k[0], v[0], reference.causal, sink=sinks)[0])
    for width in (2, 4):
        o = attn_rs.attention(q, k, v, "causal + sliding_window(window=1)", params={"window": width})
        close(o[0], reference.attention(q[0], k[0], v[0], reference.window(width))[0])


def test_parameters_that_masks_depend_on_are_read_by_every_call():
    q, k, v = normal(1, 3, 4, 8), normal(1, 5, 2, 8), normal(1, 5, 2, 8)
    for end in ([3, 4, 5], [1, 1, 2], [3, 4, 5]):
        end = np.array(end, dtype=np.int32)
        params = {"start": np.zeros(3, dtype=np.int32), "end": end}
        o = attn_rs.attention(q, k, v, "document_spans", params=params)
        close(o[0], reference.attention(q[0], k[0], v[0], lambda i, j: j < end[i - 2])[0])


def pages(lens, page_size, kv_heads, order="NHD"):
    """Keys and values of requests, the same in pools of shuffled pages, and the table."""
    counts = [-(-n // page_size) for n in lens]
    table = RNG.permutation(sum(counts) + 2)[: sum(counts)].astype(np.int32)
    pool = normal(2, sum(counts) + 2, page_size, kv_heads, 8)
    pool_of = pool if order == "NHD" else np.ascontiguousarray(pool.swapaxes(2, 3))
    rows, first = [], 0
    for n, count in zip(lens, counts):
        own = pool[:, table[first : first + count]].reshape(2, -1, kv_heads, 8)[:, :n]
        rows.append((own[0], own[1]))
        first += count
    indptr = np.cumsum([0, *counts]).astype(np.int32)
    return rows, pool_of, table, indptr


HOW = {"qo_heads": 4, "kv_heads": 2, "head_dim": 8, "dtype": "float32", "device": "cpu"}


@pytest.mark.parametrize("order", ["NHD", "HND", "fused NHD", "fused HND"])
@pytest.mark.parametrize("kind", ["paged", "block_table"])
def test_a_paged_batch(order, kind):
    lens, page_size, queries = [9, 4, 1], 4, [1, 3, 1]
    rows, pool, table, indptr = pages(lens, page_size, 2, order[-3:])
    ends = np.cumsum([0, *queries])
    num_pages = pool.shape[1]
    if kind == "paged":
        last = [(n - 1) % page_size + 1 for n in lens]
        batch = attn_rs.Batch.paged(ends, indptr, table, last, page_size=page_size, num_pages=num_pages)
    else:
        block_table = np.zeros((3, 3), dtype=np.int64)
        for i in range(3):
            own = table[indptr[i] : indptr[i + 1]]
            block_table[i, : len(own)] = own
        batch = attn_rs.Batch.block_table(ends, block_table, lens, page_size=page_size, num_pages=num_pages)
    plan = attn_rs.Plan(batch, "causal", kv_layout=order, **HOW)
    q = normal(int(ends[-1]), 4, 8)
    k, v = (np.stack([pool[0], pool[1]], axis=1), None) if "fused" in order else (pool[0], pool[1])
    o, lse = plan.run(q, k, v, return_lse=True)
    for i, (keys, values) in enumerate(rows):
        own = slice(ends[i], ends[i + 1])
        want, want_lse = reference.attention(q[own], keys, values, reference.causal)
        close(o[own], want)
        close(lse[own], want_lse)


def test_a_decode_loop_updates_one_plan_and_appends():
    page_size, num_pages, lens = 4, 8, [5, 1]
    tables = [[3, 0, 6, 1], [2, 5, 7, 4]]
    k_pool, v_pool = np.zeros((2, num_pages, page_size, 2, 8), dtype=np.float32)
    keys = [(normal(n, 2, 8), normal(n, 2, 8)) for n in lens]

    def slot(request, position):
        return tables[request][position // page_size] * page_size + position % page_size

    for request, (k, v) in enumerate(keys):
        slots = np.array([slot(request, i) for i in range(len(k))])
        attn_rs.append(k, v, k_pool, v_pool, slots)

    def batch():
        return attn_rs.Batch.block_table([0, 1, 2], tables, lens, page_size=page_size, num_pages=num_pages)

    capacity = attn_rs.Capacity(2, num_pages * page_size, page_size=page_size, num_pages=num_pages)
    plan = attn_rs.Plan(batch(), "causal", capacity=capacity, **HOW)
    for _ in range(6):
        q, k, v = normal(2, 4, 8), normal(2, 2, 8), normal(2, 2, 8)
        plan.append(k, v, k_pool, v_pool, np.array([slot(i, n) for i, n in enumerate(lens)]))
        lens = [n + 1 for n in lens]
        keys = [
            (np.concatenate([old[0], k[i : i + 1]]), np.concatenate([old[1], v[i : i + 1]]))
            for i, old in enumerate(keys)
        ]
        plan.update(batch())
        o = plan.run(q, k_pool, v_pool)
        for i in range(2):
            close(o[i : i + 1], reference.attention(q[i : i + 1], *keys[i])[0])
    lens = [33, 1]
    with pytest.raises(attn_rs.InvalidBatch):
        plan.update(batch())
    close(plan.run(q, k_pool, v_pool), o)


def test_layers_share_a_plan():
    batch = attn_rs.Batch.ragged([0, 3], [0, 9])
    plan = attn_rs.Plan(batch, "causal + soft_cap(cap=1)", **HOW)
    q, k, v = normal(3, 4, 8), normal(9, 2, 8), normal(9, 2, 8)
    for cap in (1.0, 5.0):
        layer = plan.layer(f"causal + soft_cap(cap={cap})")
        close(plan.run(q, k, v, layer=layer), reference.attention(q, k, v, reference.causal, cap=cap)[0])


def test_partial_states_merge_into_the_whole():
    q, k, v = normal(2, 4, 8), normal(9, 2, 8), normal(9, 2, 8)
    states = []
    for keys in (slice(0, 4), slice(4, 9)):
        n = keys.stop - keys.start
        plan = attn_rs.Plan(attn_rs.Batch.ragged([0, 2], [0, n]), "full", **HOW)
        states.append(plan.run(q, k[keys], v[keys], partial=True, return_lse=True))
    weights = np.exp(np.stack([lse for _, lse in states]))
    o = sum(o * w[..., None] for (o, _), w in zip(states, weights)) / weights.sum(0)[..., None]
    close(o, reference.attention(q, k, v)[0])


def test_a_partial_state_needs_its_sums():
    plan = attn_rs.Plan(attn_rs.Batch.ragged([0, 2], [0, 9]), "full", **HOW)
    with pytest.raises(attn_rs.InvalidTensor, match="lse"):
        plan.run(normal(2, 4, 8), normal(9, 2, 8), normal(9, 2, 8), partial=True)


def test_variants_are_listed_with_their_parameters():
    listed = {variant["name"]: variant for variant in attn_rs.variants()}
    assert len(listed) > 50
    assert [param["name"] for param in listed["soft_cap"]["params"]] == ["cap"]
    assert listed["sink"]["params"][0]["shape"] == "qo_heads"
    assert all(variant["doc"] for variant in listed.values())
    assert attn_rs.check("causal+soft_cap( cap = 30 )") == attn_rs.check("causal + soft_cap(cap=1)", {"cap": 30.0})
    assert attn_rs.describe("cpu").startswith("CPU (")


def test_arrays_are_released():
    q, k, v = normal(1, 3, 4, 8), normal(1, 5, 2, 8), normal(1, 5, 2, 8)
    gone = [weakref.ref(x) for x in (q, k, v)]
    attn_rs.attention(q, k, v, "causal")
    del q, k, v
    gc.collect()
    assert all(of() is None for of in gone)


def test_many_shapes_are_more_than_the_plans_that_are_kept():
    for round_ in range(2):
        for n in range(1, 90):
            q, k = normal(1, 1, 2, 8), normal(1, n, 2, 8)
            close(attn_rs.attention(q, k, k)[0], reference.attention(q[0], k[0], k[0])[0])
    attn_rs.clear_cache()


def test_threads_share_the_cache():
    from concurrent.futures import ThreadPoolExecutor

    def work(seed):
        rng = np.random.default_rng(seed)
        for _ in range(40):
            n = int(rng.integers(1, 100))
            q, k = (rng.standard_normal((1, m, 2, 8)).astype("float32") for m in (1, n))
            sink = rng.standard_normal(2).astype("float32")
            o = attn_rs.attention(q, k, k, "causal + sink", params={"sink.logits": sink})
            close(o[0], reference.attention(q[0], k[0], k[0], sink=sink)[0])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))


def test_the_picture_of_variants(tmp_path):
    import pathlib
    import runpy
    import zlib

    example = pathlib.Path(__file__).parents[1] / "examples/variants.py"
    if not example.exists():
        pytest.skip("the example is not beside these tests")
    names = runpy.run_path(str(example))
    picture = names["picture"]()
    data = names["png"](picture)
    assert data.startswith(b"\x89PNG")
    at = data.index(b"IDAT") + 4
    lines = zlib.decompress(data[at : at + int.from_bytes(data[at - 8 : at - 4], "big")])
    assert len(lines) == picture.shape[0] * (picture.shape[1] + 1)
    # the key past the last of a causal row is not drawn, the query's own is
    assert names["weights"]("causal")[10, 11] == 0 < names["weights"]("causal")[10, 10]


def test_appends_transform_keys_that_are_stored_transformed():
    n, page_size = 9, 4
    q, k, v = normal(1, 4, 8), normal(n, 2, 8), normal(n, 2, 8)
    want = attn_rs.attention(q[None], k[None], v[None], "causal + rope")
    k_pool, v_pool = np.zeros((2, 3, page_size, 2, 8), dtype=np.float32)
    batch = attn_rs.Batch.block_table([0, 1], [[2, 0, 1]], [n], page_size=page_size, num_pages=3)
    plan = attn_rs.Plan(batch, "causal + rope", stores_transformed=True, **HOW)
    slots = np.array([[2, 0, 1][i // page_size] * page_size + i % page_size for i in range(n)])
    with pytest.raises(attn_rs.InvalidTensor, match="position"):
        plan.append(k, v, k_pool, v_pool, slots)
    plan.append(k, v, k_pool, v_pool, slots, positions=np.arange(n, dtype=np.int32))
    assert np.abs(k_pool[2, 1:] - k[1:4]).max() > 0.1  # rotated, unlike that of position 0
    close(k_pool[2, 0], k[0])
    close(plan.run(q, k_pool, v_pool), want[0], 1e-5)


def test_tensors_of_a_plan_are_replaced():
    q, k, v = normal(3, 4, 8), normal(9, 2, 8), normal(9, 2, 8)
    plan = attn_rs.Plan(attn_rs.Batch.ragged([0, 3], [0, 9]), "causal + sink", params={"logits": [0.0] * 4}, **HOW)
    for sinks in (normal(4), normal(4)):
        plan.attention.set_tensor("sink.logits", sinks)
        close(plan.run(q, k, v), reference.attention(q, k, v, reference.causal, sink=sinks)[0])
    sinks = sinks.copy()
    sinks[[2, 0]] = normal(2)
    indices = np.array([2, -1, 0], dtype=np.int32)  # below 0 nothing is written
    plan.attention.set_tensor_rows("sink.logits", indices, np.append(sinks[2], [9, sinks[0]]).astype(np.float32))
    close(plan.run(q, k, v), reference.attention(q, k, v, reference.causal, sink=sinks)[0])
    with pytest.raises(attn_rs.InvalidTensor, match="int32"):
        plan.attention.set_tensor_rows("sink.logits", indices.astype(np.int64), normal(3))
    with pytest.raises(attn_rs.InvalidTensor, match="logits"):
        plan.attention.set_tensor("sink.logits", normal(5))


def test_appends_transform_by_tensors_that_are_replaced():
    q, k, v, slots = normal(1, 4, 8), normal(5, 2, 8), normal(5, 2, 8), np.arange(5)
    batch = attn_rs.Batch.paged([0, 1], [0, 1], [0], [5], page_size=5, num_pages=1)
    weights, row = normal(8), normal(1)
    outputs = []
    for stores_transformed in (False, True):
        plan = attn_rs.Plan(batch, "causal + qk_norm", stores_transformed=stores_transformed, **HOW)
        plan.attention.set_tensor("k_weight", weights)
        plan.attention.set_tensor_rows("k_weight", np.array([7], dtype=np.int32), row)
        k_pool, v_pool = np.zeros((2, 1, 5, 2, 8), dtype=np.float32)
        plan.append(k, v, k_pool, v_pool, slots, positions=np.arange(5, dtype=np.int32))
        outputs.append(plan.run(q, k_pool, v_pool))
    close(outputs[1], outputs[0], 1e-5)


@pytest.mark.parametrize("order", ["NHD", "HND"])
def test_keys_and_values_are_stored_in_a_format(order):
    k, v, q = normal(9, 2, 32), normal(9, 2, 32), normal(1, 4, 32)
    shape = lambda row: (4, 4, 2, row) if order == "NHD" else (4, 2, 4, row)
    pool = lambda row: np.full(shape(row), 0xFF, dtype=np.uint8)
    k_pool, k_side, v_pool, v_side = pool(32), pool(4), pool(16), pool(4)
    table = attn_rs.Batch.paged([0, 1], [0, 3], [2, 0, 3], [1], page_size=4, num_pages=4)
    heads = {"qo_heads": 4, "kv_heads": 2, "head_dim": 32, "dtype": "float32", "device": "cpu"}
    plan = attn_rs.Plan(table, "full", kv_format="int8 / int4(group=32)", kv_layout=order, **heads)
    slots = np.array([8, 9, 10, 11, 0, 1, 2, 3, 12], dtype=np.int64)
    plan.append(k, v, k_pool, v_pool, slots, k_side=k_side, v_side=v_side)
    o = plan.run(q, k_pool, v_pool, k_side=k_side, v_side=v_side)

    def rounded(x, levels, side):
        scale = np.abs(x).max(axis=-1, keepdims=True) / np.float32(levels)
        scale = scale.astype(side).astype(np.float32)
        return np.clip(np.rint(x / scale), -levels - 1, levels) * scale

    want, _ = reference.attention(q, rounded(k, 127, np.float32), rounded(v, 7, np.float16))
    close(o, want, 1e-5)
    with pytest.raises(attn_rs.InvalidTensor, match="no k side"):
        plan.run(q, k_pool, v_pool, v_side=v_side)
    with pytest.raises(attn_rs.AttnError, match="did you mean"):
        attn_rs.Plan(table, "full", kv_format="int9", **heads)


def test_skip_softmax_is_a_permission():
    rng = np.random.default_rng(7)
    q, k, v = (rng.standard_normal((40, heads, 16), dtype=np.float32) for heads in (4, 2, 2))
    batch = attn_rs.Batch.ragged([0, 40], [0, 40])
    how = {"qo_heads": 4, "kv_heads": 2, "head_dim": 16, "dtype": "float32", "device": "cpu"}
    exact, skips = (attn_rs.Plan(batch, "causal", **options, **how) for options in ({}, {"skip_softmax": 8.0}))
    assert (exact.run(q, k, v) == skips.run(q, k, v)).all(), "the CPU leaves nothing out"
    for variant, options in (("causal", {"fixed_split_size": 16}), ("sigmoid", {"params": {"bias": -1.0}})):
        with pytest.raises(attn_rs.Unsupported, match="skip_softmax"):
            attn_rs.Plan(batch, variant, skip_softmax=8.0, **options, **how)
    with pytest.raises(attn_rs.Unsupported, match="skip_softmax = 0; it must be positive"):
        attn_rs.Plan(batch, "causal", skip_softmax=0.0, **how)


def test_compute_types_are_named():
    batch = attn_rs.Batch.ragged([0, 3], [0, 9])
    how = {"qo_heads": 4, "kv_heads": 2, "dtype": "bfloat16", "device": "cpu"}
    over_e4m3 = {"kv_dtype": "float8_e4m3fn", **how}
    attn_rs.Plan(batch, "causal", head_dim=128, compute_type="e4m3", **over_e4m3)
    attn_rs.Plan(batch, "causal", head_dim=64, compute_type="exact", **how)
    for dim, dtypes, says in [(64, over_e4m3, "head_dim of 128"), (128, how, "k and v of e4m3")]:
        with pytest.raises(attn_rs.AttnError, match=says):
            attn_rs.Plan(batch, "causal", head_dim=dim, compute_type="e4m3", **dtypes)
    with pytest.raises(attn_rs.InvalidArgument, match="fp8"):
        attn_rs.Plan(batch, "causal", head_dim=128, compute_type="fp8", **over_e4m3)
