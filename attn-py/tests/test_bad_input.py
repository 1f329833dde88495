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


def test_appends():
    pool = np.zeros((2, 4, 2, 8), dtype=np.float32)
    k, slots = np.ones((1, 2, 8), dtype=np.float32), np.array([3])
    for values, where, text in [
        ((k, k), np.array([8]), "slot"),
        ((k, k), np.array([3], dtype=np.int32), "slots"),
        ((k, None), slots, "v is None"),
        ((k, np.ones((2, 2, 8), dtype=np.float32)), slots, "v has|tokens|rows"),
    ]:
        refused(attn_rs.InvalidTensor, text, lambda: attn_rs.append(*values, pool, pool.copy(), where))  # noqa: B023
    refused(attn_rs.InvalidTensor, "shares memory", lambda: attn_rs.append(k, k, pool, pool, slots))
    assert not pool.any()


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
