"""Bad input is an exception that says what was asked and what is possible; nothing is written."""

import numpy as np
import pytest

import attn_rs

Q, K = np.ones((3, 4, 8), dtype=np.float32), np.ones((9, 2, 8), dtype=np.float32)
HOW = {"qo_heads": 4, "kv_heads": 2, "head_dim": 8, "dtype": "float32", "device": "cpu"}


@pytest.fixture(name="plan", scope="module")
def a_plan():
    return attn_rs.Plan(attn_rs.Batch.ragged([0, 3], [0, 9]), "causal", **HOW)


def refused(error, text, run):
    with pytest.raises(error, match=text) as caught:
        run()
    assert isinstance(caught.value, attn_rs.AttnError)
    return caught.value


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("causl", "did you mean `causal`"),
        ("causal +", "expected the name of a variant"),
        ("soft_cap(cap=-1)", "must hold"),
        ("soft_cap(cup=1)", "cap"),
        ("", "expected"),
        ("sigmoid + softpick", "softpick"),
    ],
)
def test_variants(expression, text):
    refused(attn_rs.InvalidVariant, text, lambda: attn_rs.check(expression))
    refused(ValueError, text, lambda: attn_rs.attention(Q[None], K[None], K[None], expression))


def test_parameters():
    call = lambda params: attn_rs.attention(Q[None], K[None], K[None], "causal + sink", params=params)  # noqa: E731
    refused(attn_rs.InvalidVariant, "logits", lambda: call({}))
    refused(attn_rs.AttnError, "logits", lambda: call({"sink.logits": [1.0, 2.0]}))
    refused(attn_rs.AttnError, "sink", lambda: call({"sunk": 1.0}))
    refused(attn_rs.InvalidArgument, "a parameter is a number", lambda: call({"sink.logits": object()}))


def test_arguments_that_would_not_be_read():
    refused(
        attn_rs.InvalidArgument,
        "cu_seqlens_k is given without cu_seqlens_q",
        lambda: attn_rs.attention(Q[None], K[None], K[None], cu_seqlens_k=[0, 9]),
    )
    refused(
        attn_rs.InvalidArgument,
        "`bhsd` beside cu_seqlens_q",
        lambda: attn_rs.attention(Q, K, K, layout="bhsd", cu_seqlens_q=[0, 3], cu_seqlens_k=[0, 9]),
    )


@pytest.mark.parametrize(
    ("name", "tensors", "text"),
    [
        ("of too few tokens", (Q[:2], K, K), "q has 2"),
        ("of other heads", (np.ones((3, 6, 8), dtype="float32"), K, K), "q has 6"),
        ("of another type", (Q.astype("float16"), K, K), "q is"),
        ("of doubles", (Q, K.astype("float64"), K), "float64|float"),
        ("of gaps", (Q, K, np.ones((9, 2, 16), dtype="float32")[..., ::2]), "contiguous"),
        ("backwards", (Q, K[::-1], K), "stride"),
        ("of rank 2", (Q, K[0], K), "rank|dimensions"),
        ("of rank 6", (Q[None, None, None], K, K), "dimensions"),
        ("no values", (Q, K, None), "v is None"),
        ("no tensor", (Q, "keys", K), "k is a str"),
        ("a list", (Q.tolist(), K, K), "q is a list"),
    ],
)
def test_tensors(plan, name, tensors, text):
    out = np.full((3, 4, 8), 7.0, dtype=np.float32)
    refused(attn_rs.InvalidTensor, text, lambda: plan.run(*tensors, out=out))
    assert (out == 7.0).all()


def test_outputs(plan):
    frozen = np.zeros((3, 4, 8), dtype=np.float32)
    frozen.flags.writeable = False
    with pytest.raises((attn_rs.InvalidTensor, BufferError)):
        plan.run(Q, K, K, out=frozen)
    q = Q.copy()
    refused(attn_rs.InvalidTensor, "out shares memory with q", lambda: plan.run(q, K, K, out=q))
    wide = np.zeros((3, 4, 9), dtype=np.float32)
    refused(attn_rs.InvalidTensor, "out|o has", lambda: plan.run(Q, K, K, out=wide))
    repeated = np.lib.stride_tricks.as_strided(wide, (3, 4, 8), (0, 36, 4))
    refused(attn_rs.InvalidTensor, "overlap", lambda: plan.run(Q, K, K, out=repeated))


def test_batches():
    ragged = attn_rs.Batch.ragged
    for batch in (ragged([0, 3], [0, 9, 12]), ragged([0, 3, 2], [0, 9, 9]), ragged([1, 3], [0, 9])):
        refused(attn_rs.InvalidBatch, "indptr", lambda batch=batch: attn_rs.Plan(batch, **HOW))
    refused(attn_rs.InvalidBatch, "below", lambda: ragged([0, 1 << 40], [0, 1]))
    refused(attn_rs.InvalidBatch, "whole numbers", lambda: ragged(np.zeros(2, dtype=np.float32), [0, 1]))
    refused(attn_rs.InvalidBatch, "dimension", lambda: ragged(np.zeros((2, 2), dtype=np.int32), [0, 1]))
    table = attn_rs.Batch.block_table
    refused(attn_rs.InvalidBatch, "rows", lambda: table([0, 1], [[0], [1]], [3], page_size=4, num_pages=2))
    refused(
        attn_rs.InvalidBatch, "different lengths", lambda: table([0, 1], [[0], [1, 2]], [3], page_size=4, num_pages=2)
    )
    outside = table([0, 1], [[5]], [3], page_size=4, num_pages=2)
    refused(attn_rs.InvalidBatch, "page", lambda: attn_rs.Plan(outside, **HOW))
    with pytest.raises(TypeError):
        ragged("queries", [0, 1])


def test_plans(plan):
    refused(attn_rs.InvalidBatch, "capacity", lambda: plan.update(attn_rs.Batch.ragged([0, 1], [0, 2])))
    batch = attn_rs.Batch.ragged([0, 3], [0, 9])
    make = lambda **how: attn_rs.Plan(batch, **{**HOW, **how})  # noqa: E731
    refused(attn_rs.Unsupported, "multiple", lambda: make(qo_heads=3))
    refused(attn_rs.InvalidArgument, "there are `NHD`", lambda: make(kv_layout="NDH"))
    refused(attn_rs.InvalidArgument, "there are `decode`", lambda: make(kernel="fast"))
    refused(attn_rs.InvalidArgument, "there are `cpu`", lambda: make(device="tpu"))
    refused(attn_rs.InvalidArgument, "float16", lambda: make(dtype="float64"))
    refused(attn_rs.Unsupported, "positive", lambda: make(scale=-1.0))
    refused(attn_rs.Unsupported, "e5m2", lambda: make(dtype="float8_e5m2"))
    with pytest.raises(OverflowError):
        make(qo_heads=-1)
    refused(attn_rs.InvalidArgument, "on the CPU", lambda: plan.run(Q, K, K, stream=3))
    refused(attn_rs.Unsupported, "causal|full", lambda: plan.layer("full"))


def test_formats_have_a_type_of_their_own():
    of = lambda kv_dtype: attn_rs.Plan(  # noqa: E731
        attn_rs.Batch.ragged([0, 3], [0, 9]), "causal", kv_format="int8", kv_dtype=kv_dtype, **HOW
    )
    refused(attn_rs.InvalidArgument, "kv_dtype is float16 beside kv_format", lambda: of("float16"))
    refused(attn_rs.InvalidArgument, "kv_dtype is float32 beside kv_format", lambda: of(np.float32))
    for kv_dtype in (None, "uint8", np.uint8):
        of(kv_dtype)


def test_appends():
    pool = np.zeros((2, 4, 2, 8), dtype=np.float32)
    k, slots = np.ones((1, 2, 8), dtype=np.float32), np.array([3])
    for values, where, text in [
        ((k, k), np.array([8]), "slot"),
        ((k, k), np.array([3], dtype=np.int16), "slots is of int16; it is of int64"),
        ((k, None), slots, "v is None"),
        ((k, np.ones((2, 2, 8), dtype=np.float32)), slots, "v has|tokens|rows"),
    ]:
        refused(attn_rs.InvalidTensor, text, lambda: attn_rs.append(*values, pool, pool.copy(), where))  # noqa: B023
    refused(attn_rs.InvalidTensor, "shares memory", lambda: attn_rs.append(k, k, pool, pool, slots))
    assert not pool.any()


def test_rows_past_the_batch_are_refused_without_a_capacity(plan):
    for tensors, text in [
        ((np.ones((5, 4, 8), dtype="float32"), K, K), "q has 5 tokens; this run needs 3"),
        ((Q, np.ones((11, 2, 8), dtype="float32"), K), "k has 11 tokens; this run needs 9"),
        ((Q, K, np.ones((11, 2, 8), dtype="float32")), "v has 11 tokens; this run needs 9"),
    ]:
        refused(attn_rs.InvalidTensor, text, lambda tensors=tensors: plan.run(*tensors))
    for out, lse, text in [((5, 4, 8), (3, 4), "o has 5 tokens"), ((3, 4, 8), (5, 4), "lse has 5 tokens")]:
        out, lse = np.full(out, 7.0, dtype="float32"), np.full(lse, 7.0, dtype="float32")
        refused(attn_rs.InvalidTensor, text, lambda out=out, lse=lse: plan.run(Q, K, K, out=out, lse=lse))
        assert (out == 7.0).all() and (lse == 7.0).all()
    cu = {"cu_seqlens_q": [0, 3], "cu_seqlens_k": [0, 9]}
    refused(attn_rs.InvalidTensor, "q has 5", lambda: attn_rs.attention(np.ones((5, 4, 8), "float32"), K, K, **cu))


def test_rows_past_the_batch_are_zero_under_a_capacity():
    capacity = attn_rs.Capacity(2, 20, qo_tokens=5)
    plan = attn_rs.Plan(attn_rs.Batch.ragged([0, 3], [0, 9]), "causal", capacity=capacity, **HOW)
    want, want_lse = attn_rs.Plan(attn_rs.Batch.ragged([0, 3], [0, 9]), "causal", **HOW).run(Q, K, K, return_lse=True)
    q, k = np.ones((5, 4, 8), dtype="float32"), np.ones((20, 2, 8), dtype="float32")
    for _ in range(20):
        np.full((5, 4, 8), np.nan, dtype="float32")  # what new memory may hold
        o, lse = plan.run(q, k, k, return_lse=True)
        np.testing.assert_array_equal(o[:3], want)
        np.testing.assert_array_equal(lse[:3], want_lse)
        assert not o[3:].any() and not lse[3:].any()
    out = np.full((5, 4, 8), 7.0, dtype="float32")
    plan.run(q, k, k, out=out)
    np.testing.assert_array_equal(out[:3], want)
    assert (out[3:] == 7.0).all(), "the caller's rows stay"
    refused(attn_rs.InvalidTensor, "q has 2 tokens; this run needs at least 3", lambda: plan.run(Q[:2], K, K))


@pytest.mark.parametrize("name", ["q", "k", "v", "lse"])
def test_outputs_that_are_other_tensors(plan, name):
    memory = np.ones(4096, dtype=np.float32)
    at = {"q": 0, "k": 96, "v": 240, "lse": 384, "out": 512}
    shapes = {"q": (3, 4, 8), "k": (9, 2, 8), "v": (9, 2, 8), "lse": (3, 4), "out": (3, 4, 8)}

    def run(**places):
        first = {**at, **places}
        of = {key: memory[first[key] :][: np.prod(shapes[key])].reshape(shapes[key]) for key in at}
        return plan.run(of["q"], of["k"], of["v"], out=of["out"], lse=of["lse"])

    run()
    last = {"q": 95, "k": 239, "v": 383, "lse": 395}[name]
    for place in (at[name], last):
        text = f"(out|lse) shares memory with ({name}|lse)"
        refused(attn_rs.InvalidTensor, text, lambda place=place: run(out=place))


def test_outputs_between_the_elements_of_inputs(plan):
    # (tokens, q and out, heads, head dim): no element is shared
    both = np.ones((3, 2, 4, 8), dtype=np.float32)
    rng = np.random.default_rng(0)
    both[:, 0] = rng.standard_normal((3, 4, 8))
    q = both[:, 0].copy()
    want = plan.run(q, K, K)
    plan.run(both[:, 0], K, K, out=both[:, 1])
    np.testing.assert_array_equal(both[:, 1], want)
    np.testing.assert_array_equal(both[:, 0], q)


@pytest.mark.parametrize("kv_layout", ["NHD", "HND"])
@pytest.mark.parametrize("halves", ["of pages", "of the pool", "of rows", "values first"])
def test_appends_to_halves_of_one_pool(kv_layout, halves):
    rng = np.random.default_rng(1)
    k, v = (rng.standard_normal((3, 2, 8)).astype("float32") for _ in range(2))
    page = (4, 2, 8) if kv_layout == "NHD" else (2, 4, 8)
    pool, rows = np.zeros((5, 2, *page), dtype=np.float32), np.zeros((5, *page[:2], 16), dtype=np.float32)
    parts = {
        "of pages": (pool[:, 0], pool[:, 1]),
        "values first": (pool[:, 1], pool[:, 0]),
        "of the pool": (pool.reshape(10, *page)[:5], pool.reshape(10, *page)[5:]),
        "of rows": (rows[..., :8], rows[..., 8:]),
    }[halves]
    apart = tuple(np.zeros((5, *page), dtype=np.float32) for _ in range(2))
    slots = np.array([13, 2, -1])
    for pools in (parts, apart):
        attn_rs.append(k, v, *pools, slots, kv_layout=kv_layout)
    for got, want in zip(parts, apart, strict=True):
        np.testing.assert_array_equal(got, want)
        assert want.any()


def test_appends_to_pools_that_share_memory():
    memory = np.zeros((5, 3, 4, 2, 8), dtype=np.float32)
    k, slots = np.ones((1, 2, 8), dtype=np.float32), np.array([3])
    late = np.lib.stride_tricks.as_strided(memory.reshape(-1)[8:], (5, 4, 2, 8), memory[:, 0].strides)
    for pools, text in [
        ((memory[:, 0], memory[:, 0]), "k_pool shares memory with v_pool"),
        ((memory[:, 0], late), "k_pool shares memory with v_pool"),
    ]:
        refused(attn_rs.InvalidTensor, text, lambda pools=pools: attn_rs.append(k, k, *pools, slots))
        assert not memory.any()
    inside = memory[0, 2, :1]
    pools = (memory[:, 2], memory[:, 1])
    refused(attn_rs.InvalidTensor, "k_pool shares memory with k", lambda: attn_rs.append(inside, k, *pools, slots))


def test_side_data_within_the_rows_of_codes():
    rng = np.random.default_rng(2)
    k, v = (rng.standard_normal((3, 2, 32)).astype("float32") for _ in range(2))
    batch = attn_rs.Batch.block_table([0, 3], [[1, 0]], [3], page_size=2, num_pages=3)
    how = {"qo_heads": 2, "kv_heads": 2, "head_dim": 32, "dtype": "float32", "device": "cpu", "kv_format": "int8"}
    plan = attn_rs.Plan(batch, "causal", **how)
    slots = np.array([2, 3, 0])
    sides = 4
    rows = np.zeros((2, 3, 2, 2, 32 + sides), dtype=np.uint8)
    within = [part for of in rows for part in (of[..., :32], of[..., 32:])]
    apart = [np.zeros((3, 2, 2, width), dtype=np.uint8) for width in (32, sides, 32, sides)]
    for k_pool, k_side, v_pool, v_side in (within, apart):
        plan.append(k, v, k_pool, v_pool, slots, k_side=k_side, v_side=v_side)
    for got, want in zip(within, apart, strict=True):
        np.testing.assert_array_equal(got, want)
        assert want.any()


def odd(array):
    """The array at an address between those of its elements."""
    memory = np.frombuffer(bytearray(array.nbytes + 1), dtype=np.uint8)[1:]
    at = memory.view(array.dtype).reshape(array.shape)
    at[...] = array
    return at


def test_arrays_between_addresses(plan):
    k, pool = np.ones((2, 1, 16), np.float32), np.zeros((4, 4, 1, 16), np.float32)
    text = "no multiple of"
    slots = odd(np.array([3, 5]))
    refused(attn_rs.InvalidTensor, f"slots is at .*{text} 8", lambda: attn_rs.append(k, k, pool, pool.copy(), slots))
    positions = odd(np.array([0, 1], dtype=np.int32))
    where = np.array([3, 5])
    call = lambda: attn_rs.append(k, k, pool, pool.copy(), where, positions=positions)  # noqa: E731
    refused(attn_rs.InvalidTensor, f"positions is at .*{text} 4", call)
    for name, tensors in {"q": (odd(Q), K, K), "k": (Q, odd(K), K), "v": (Q, K, odd(K))}.items():
        refused(attn_rs.InvalidTensor, f"{name} is at .*{text} 4", lambda tensors=tensors: plan.run(*tensors))
    out = odd(np.zeros((3, 4, 8), dtype=np.float32))
    refused(attn_rs.InvalidTensor, f"out is at .*{text} 4", lambda: plan.run(Q, K, K, out=out))
    sinks = attn_rs.Plan(attn_rs.Batch.ragged([0, 3], [0, 9]), "sink", params={"sink.logits": [1.0] * 4}, **HOW)
    values = odd(np.ones(4, dtype=np.float32))
    refused(attn_rs.InvalidTensor, f"logits is at .*{text} 4", lambda: sinks.attention.set_tensor("logits", values))
    # numbers of a batch are copied one by one
    batch = attn_rs.Batch.ragged(odd(np.array([0, 3])), odd(np.array([0, 9], dtype=np.int32)))
    np.testing.assert_array_equal(attn_rs.Plan(batch, "causal", **HOW).run(Q, K, K), plan.run(Q, K, K))


def test_numbers_of_batches_in_any_order_and_type():
    want = attn_rs.Plan(attn_rs.Batch.ragged([0, 1, 3], [0, 4, 9]), "causal", **HOW).run(Q, K, K)
    for qo in (np.array([3, 1, 0])[::-1], np.array([0, 9, 1, 9, 3, 9])[::2], (0, 1, 3)):
        batch = attn_rs.Batch.ragged(qo, [0, 4, 9])
        np.testing.assert_array_equal(attn_rs.Plan(batch, "causal", **HOW).run(Q, K, K), want)
    for of in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"):
        batch = attn_rs.Batch.ragged(np.array([0, 1, 3], dtype=of), np.array([0, 4, 9], dtype=of))
        np.testing.assert_array_equal(attn_rs.Plan(batch, "causal", **HOW).run(Q, K, K), want)
    for of in ("float16", "float32", "float64", "bool", "complex64"):
        numbers = np.zeros(2, dtype=of)
        refused(attn_rs.AttnError, f"qo_indptr is of {of}", lambda: attn_rs.Batch.ragged(numbers, [0, 1]))  # noqa: B023
    refused(attn_rs.InvalidBatch, "below 2", lambda: attn_rs.Batch.ragged(np.array([0, 1 << 63], "uint64"), [0, 1]))
    refused(attn_rs.InvalidBatch, "below 2", lambda: attn_rs.Batch.ragged([0, 1 << 80], [0, 1]))
    refused(attn_rs.InvalidTensor, "byte order|native", lambda: attn_rs.Batch.ragged(np.zeros(2, dtype=">i4"), [0, 1]))


def test_what_repeats_or_lies_is_bounded_before_memory_is_taken():
    def many(count):
        return np.broadcast_to(np.int32(0), (count,))

    ragged, table = attn_rs.Batch.ragged, attn_rs.Batch.block_table
    for count in (1 << 33, 1 << 40, 1 << 60):
        for make in (
            lambda count=count: ragged(many(count), [0, 1]),
            lambda count=count: ragged([0, 1], many(count)),
            lambda count=count: ragged(np.broadcast_to(np.uint8(0), (count,)), [0, 1]),
            lambda count=count: attn_rs.Batch.paged([0, 1], [0, 1], many(count), [1], page_size=1, num_pages=1),
            lambda count=count: table([0, 1], many(count)[None], [1], page_size=1, num_pages=1),
        ):
            refused(attn_rs.InvalidBatch, f"has {count} numbers or more; a batch has at most", make)
        params, q, k = {"sink.logits": np.broadcast_to(np.float32(0), (count,))}, Q[None], K[None]
        for make, text in (
            (lambda count=count: attn_rs.attention(Q, K, K, cu_seqlens_q=many(count)), "cu_seqlens_q has .* numbers"),
            (lambda params=params: attn_rs.check("sink", params), "by value"),
            (lambda q=q, k=k, params=params: attn_rs.attention(q, k, k, "sink", params=params), "logits has .* numbers"),
        ):
            refused(attn_rs.InvalidArgument, text, make)
    refused(attn_rs.InvalidBatch, "at most", lambda: ragged(range(1 << 40), [0, 1]))
    pool, slots = np.zeros((1, 9, 2, 8), dtype=np.float32), np.broadcast_to(np.int64(0), (1 << 40,))
    refused(attn_rs.InvalidTensor, "gaps", lambda: attn_rs.append(K, K, pool, pool.copy(), slots))


def test_arrays_of_no_elements_have_no_gaps():
    # numpy 2.4 gives strides of 0
    batch = attn_rs.Batch.ragged([0, 0], [0, 9])
    plan = attn_rs.Plan(batch, "causal", **HOW)
    empty = np.zeros((0, 4, 8), dtype=np.float32)
    flat = np.lib.stride_tricks.as_strided(empty, (0, 4, 8), (0, 0, 0))
    for q in (empty, flat, np.empty((0, 4, 16), "float32")[..., ::2]):
        assert plan.run(q, K, K).shape == (0, 4, 8)
    keys = np.lib.stride_tricks.as_strided(np.zeros((0, 2, 8), dtype=np.float32), (0, 2, 8), (0, 0, 0))
    none = attn_rs.Plan(attn_rs.Batch.ragged([0, 3], [0, 0]), "full", **HOW)
    o, lse = none.run(Q, keys, keys, return_lse=True)
    assert not o.any() and (lse == -np.inf).all()
    pool = np.zeros((2, 4, 2, 8), dtype=np.float32)
    attn_rs.append(keys, keys, pool, pool.copy(), np.zeros(0, dtype=np.int64))
    assert attn_rs.attention(Q[None, :0], K[None], K[None]).shape == (1, 0, 4, 8)
    for nothing in (attn_rs.Batch.ragged([0], [0]), attn_rs.Batch.ragged(np.zeros(1, "int32"), np.zeros(1, "int32"))):
        plan = attn_rs.Plan(nothing, **HOW)
        assert plan.run(empty, K[:0], K[:0]).shape == (0, 4, 8)


def test_parameters_are_in_the_expression_or_beside_it():
    want = "causal + soft_cap(cap=30)"
    assert attn_rs.check(want) == want
    for params in ({"soft_cap.cap": 30.0}, {"cap": 30}, {"soft_cap.cap": np.float32(30)}):
        assert attn_rs.check("causal + soft_cap", params) == want
        assert attn_rs.check("causal + soft_cap(cap=20)", params) == want
    both = attn_rs.check("sliding_window + soft_cap", {"window": 3, "soft_cap.cap": 5.0})
    assert both == attn_rs.check("sliding_window(window=3) + soft_cap(cap=5)")
    q, k = Q[None], K[None]
    got = attn_rs.attention(q, k, k, "causal + soft_cap", params={"soft_cap.cap": 30.0})
    np.testing.assert_array_equal(got, attn_rs.attention(q, k, k, want))
    layer = attn_rs.Plan(attn_rs.Batch.ragged([0, 3], [0, 9]), want, **HOW).layer("causal + soft_cap", {"cap": 5.0})
    assert layer.variant == "causal + soft_cap(cap=5)"
    for params, text in [
        ({}, "has no default and was not given"),
        ({"soft_cap.cup": 30.0}, "has no default|no parameter"),
        ({"soft_cap.cap": -1.0}, "cap > 0"),
        ({"soft_cap.cap": "much"}, "is a str"),
        ({"soft_cap.cap": 30.0, "sunk": 1}, "sunk"),
        ({"soft_cap.cap": 1 << 80}, "below 2"),
    ]:
        refused(attn_rs.AttnError, text, lambda params=params: attn_rs.check("causal + soft_cap", params))
    several = "soft_cap + soft_cap"
    refused(attn_rs.InvalidVariant, "soft_cap", lambda: attn_rs.check(several, {"soft_cap.cap": 3.0}))


def test_types_of_elements_name_the_tensor():
    for name in "qkv":
        for of in ("float64", "int32", "uint8", "bool"):
            tensors = {"q": Q[None], "k": K[None], "v": K[None]}
            tensors[name] = tensors[name].astype(of)
            text = f"{name} is of {of}; it is one of float16"
            refused(attn_rs.InvalidTensor, text, lambda tensors=tensors: attn_rs.attention(**tensors))
    batch = attn_rs.Batch.ragged([0, 3], [0, 9])
    refused(attn_rs.InvalidArgument, "dtype is `float64`", lambda: attn_rs.Plan(batch, **{**HOW, "dtype": "float64"}))


def test_arguments_of_other_types(plan):
    batch, q, k = attn_rs.Batch.ragged([0, 3], [0, 9]), Q[None], K[None]
    make = lambda **how: attn_rs.Plan(**{"batch": batch, **HOW, **how})  # noqa: E731
    expression = "the variant is of the type `int`; it is an expression"
    for call in (
        lambda: attn_rs.attention(q, k, k, 3),
        lambda: make(variant=3),
        lambda: plan.layer(3),
        lambda: attn_rs.check(3),
    ):
        refused(attn_rs.InvalidVariant, expression, call)
    capacity = lambda **how: attn_rs.Capacity(**{"requests": 1, "kv_tokens": 9, **how})  # noqa: E731
    pool = np.zeros((2, 4, 2, 8), dtype=np.float32)
    append = lambda **how: attn_rs.append(K[:1], K[:1], pool, pool.copy(), np.array([1]), **how)  # noqa: E731
    for name, call in [
        ("batch", lambda: make(batch=[0, 3])),
        ("params", lambda: make(params=[1])),
        ("params", lambda: attn_rs.attention(q, k, k, "sink", params=[1])),
        ("params", lambda: make(params={3: 1.0})),
        ("qo_heads", lambda: make(qo_heads="4")),
        ("kv_heads", lambda: make(kv_heads=2.5)),
        ("head_dim", lambda: make(head_dim=None)),
        ("value_dim", lambda: make(value_dim="8")),
        ("scale", lambda: make(scale="big")),
        ("kernel", lambda: make(kernel=3)),
        ("fixed_split_size", lambda: make(fixed_split_size="all")),
        ("skip_softmax", lambda: make(skip_softmax="most")),
        ("stores_transformed", lambda: make(stores_transformed="yes")),
        ("kv_layout", lambda: make(kv_layout=3)),
        ("kv_format", lambda: make(kv_format=3)),
        ("compute_type", lambda: make(compute_type=3)),
        ("capacity", lambda: make(capacity=3)),
        ("layers", lambda: make(layers=3)),
        ("layers", lambda: make(layers=[3])),
        ("stream", lambda: make(stream="first")),
        ("layer", lambda: plan.run(Q, K, K, layer="causal")),
        ("partial", lambda: plan.run(Q, K, K, partial="some")),
        ("k_scale", lambda: plan.run(Q, K, K, k_scale="one")),
        ("k_scale", lambda: plan.run(Q, K, K, k_scale=True)),
        ("scale", lambda: attn_rs.attention(q, k, k, scale=True)),
        ("stream", lambda: plan.run(Q, K, K, stream="first")),
        ("batch", lambda: plan.update(3)),
        ("requests", lambda: capacity(requests="1")),
        ("requests", lambda: capacity(requests=True)),
        ("kv_tokens", lambda: capacity(kv_tokens=None)),
        ("page_size", lambda: attn_rs.Batch.block_table([0, 1], [[0]], [1], page_size="4", num_pages=1)),
        ("qo_indptr", lambda: attn_rs.Batch.ragged(3, [0, 1])),
        ("qo_indptr", lambda: attn_rs.Batch.ragged([0, None], [0, 1])),
        ("qo_indptr", lambda: attn_rs.Batch.ragged([0, 1.5], [0, 1])),
        ("kv_indptr", lambda: attn_rs.Batch.ragged([0, 1], {0: 1})),
        ("cu_seqlens_q", lambda: attn_rs.attention(Q, K, K, cu_seqlens_q=3)),
        ("kv_layout", lambda: append(kv_layout=3)),
        ("v_scale", lambda: append(v_scale="one")),
        ("name", lambda: plan.attention.set_tensor(3, Q)),
        ("device", lambda: attn_rs.describe(3)),
        ("path", lambda: attn_rs.load_costs(3, "cpu")),
        ("rust", lambda: attn_rs.variant(3)),
        ("file", lambda: attn_rs.variant("", file=3)),
    ]:
        assert isinstance(refused(attn_rs.InvalidArgument, name, call), TypeError), name
    for name, call in [
        ("qo_heads", lambda: make(qo_heads=-1)),
        ("head_dim", lambda: make(head_dim=1 << 40)),
        ("requests", lambda: capacity(requests=-1)),
        ("num_pages", lambda: attn_rs.Batch.block_table([0, 1], [[0]], [1], page_size=4, num_pages=1 << 40)),
        ("stream", lambda: plan.run(Q, K, K, stream=-1)),
    ]:
        assert isinstance(refused(attn_rs.InvalidArgument, name, call), OverflowError), name
    misspelt = (
        lambda: plan.run(Q, K, K, k_scales=1.0),
        lambda: make(head_dims=8),
        lambda: attn_rs.attention(q, k, k, scal=1.0),
    )
    for call in misspelt:
        with pytest.raises(TypeError, match="unexpected keyword"):
            call()


def test_begins_of_requests():
    def call(of_q, of_k=(0, 9)):
        return attn_rs.attention(Q, K, K, "causal", cu_seqlens_q=of_q, cu_seqlens_k=of_k)

    for bad in ([[0, 3]], [0, 2.5, 3], np.array([[0, 3]]), np.array([False, True]), [0, "3"], [False, 3], 3):
        refused(attn_rs.InvalidArgument, "cu_seqlens_q is a list or an array of whole numbers", lambda bad=bad: call(bad))
    refused(attn_rs.InvalidArgument, "cu_seqlens_k is a list", lambda: call([0, 3], [0, None]))
    want = call([0, 3])
    for good in (np.array([0, 3], np.uint8), [np.int64(0), np.int32(3)], range(0, 4, 3)):
        np.testing.assert_array_equal(call(good), want)


def test_no_queries():
    for layout in ("bshd", "bhsd"):
        q = np.ones((2, 0, 4, 8) if layout == "bshd" else (2, 4, 0, 8), np.float32)
        k = np.ones((2, 9, 2, 8) if layout == "bshd" else (2, 2, 9, 8), np.float32)
        assert attn_rs.attention(q, k, k, "causal", layout=layout).shape == q.shape


def test_rows_that_run_backwards(plan):
    refused(attn_rs.InvalidTensor, "k has the stride -16 in dimension 0", lambda: plan.run(Q, K[::-1], K))


def test_captured_memory_is_released_by_name(plan):
    # of the CPU nothing is captured
    plan.release_captured()
    attn_rs.release_captured("cpu")
    attn_rs.release_captured("cuda:3")
    refused(attn_rs.InvalidArgument, "there are `cpu`", lambda: attn_rs.release_captured("tpu"))


def test_a_missing_device_is_said():
    try:
        attn_rs.describe("cuda:97")
    except attn_rs.NoDevice as error:
        assert "cuda" in str(error).lower()
    else:
        pytest.fail("there is no device 97")


class Crooked:
    """A producer that keeps no promise."""

    def __init__(self, device=(1, 0), capsule=None, shape=(3, 4, 8)):
        self.device, self.capsule, self.shape = device, capsule, shape

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **options):
        return self.capsule


def test_producers_of_dlpack(plan):
    for crooked in (Crooked(), Crooked(capsule=3), Crooked(device="cpu"), Crooked(device=(7, 0))):
        with pytest.raises((attn_rs.InvalidTensor, TypeError)):
            plan.run(crooked, K, K, out=np.zeros((3, 4, 8), dtype=np.float32))
    used = Q.__dlpack__()
    refilled = Crooked(capsule=used)
    plan.run(refilled, K, K, out=np.zeros((3, 4, 8), dtype=np.float32))
    refused(attn_rs.InvalidTensor, "used", lambda: plan.run(refilled, K, K, out=np.zeros((3, 4, 8), dtype=np.float32)))


NEAR = """
use attn::prelude::*;

/// Keys within a distance.
#[derive(Clone, VariantParams)]
struct NearInPython { #[require(distance >= 0)] distance: i32 }

#[attention_variant]
impl AttentionVariant for NearInPython {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        (at.qo_pos - at.kv_pos).abs() <= self.distance
    }
}
"""


def test_rust_text():
    assert attn_rs.variant(NEAR, "near.rs") == ["near_in_python"]
    assert attn_rs.check("causal + near_in_python(distance=3)") == "causal + near_in_python(distance=3)"
    assert "near_in_python" in [variant["name"] for variant in attn_rs.variants()]
    refused(attn_rs.InvalidVariant, "distance >= 0", lambda: attn_rs.check("near_in_python(distance=-1)"))
    on_cpu = lambda: attn_rs.attention(Q[None], K[None], K[None], "near_in_python(distance=3)")
    refused(attn_rs.AttnError, "was read from Rust text, which runs on CUDA devices alone", on_cpu)
    assert attn_rs.variant(NEAR.replace("<= self", "< self"), "near.rs") == ["near_in_python"]


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("self.distance", "self.distances", r"near.rs:11:47: no field `distances`"),
        ("LogitIndex) ->", "LogitIndex ->", r"near.rs:13:1: a bracket or a quote"),
        (".abs()", ".abbs()", r"near.rs:11:"),
        ("logits_mask", "logit_mask", "did you mean `logits_mask`"),
        ("#[attention_variant]", '#[attention_variant(name = "causal")]', "two variants are called `causal`"),
        ("distance: i32", "distance: String", r"near.rs:6:"),
    ],
)
def test_mistakes_in_rust_text(old, new, text):
    refused(attn_rs.InvalidVariant, text, lambda: attn_rs.variant(NEAR.replace(old, new), "near.rs"))
