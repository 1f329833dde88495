"""Scales of stored keys and values: numbers, arrays of KV heads, arrays of one element."""

import numpy as np
import pytest
import reference

import attn_rs

RNG = np.random.default_rng(4)
HOW = {"qo_heads": 4, "kv_heads": 2, "head_dim": 8, "dtype": "float32", "device": "cpu"}
Q, K, V = (RNG.standard_normal(shape).astype("float32") for shape in ((3, 4, 8), (9, 2, 8), (9, 2, 8)))


@pytest.fixture(name="plan", scope="module")
def a_plan():
    return attn_rs.Plan(attn_rs.Batch.ragged([0, 3], [0, 9]), "causal", **HOW)


def array(*numbers):
    return np.array(numbers, dtype=np.float32)


@pytest.mark.parametrize(
    ("scale", "of_heads"),
    [
        (2, 2.0),
        (0.5, 0.5),
        (np.float32(0.5), 0.5),
        (array(0.25), 0.25),
        (np.array(0.25, dtype=np.float32), 0.25),
        (array(0.5, 3.0), array(0.5, 3.0)[:, None]),
        (array(0.5, 7.0, 3.0, 7.0).reshape(2, 2)[:, 0].copy(), array(0.5, 3.0)[:, None]),
    ],
)
def test_scales_of_a_run(plan, scale, of_heads):
    for which in ("k_scale", "v_scale"):
        k, v = K * (of_heads if which == "k_scale" else 1), V * (of_heads if which == "v_scale" else 1)
        want, want_lse = reference.attention(Q, k, v, reference.causal)
        o, lse = plan.run(Q, K, V, return_lse=True, **{which: scale})
        np.testing.assert_allclose(o, want, atol=1e-5)
        np.testing.assert_allclose(lse, want_lse, atol=1e-5)


@pytest.mark.parametrize(
    ("error", "text", "scale"),
    [
        (attn_rs.InvalidTensor, "k_scales has 3 heads", array(1, 2, 3)),
        (attn_rs.InvalidTensor, "k_scales", array(1, 2, 3, 4).reshape(2, 2)),
        (attn_rs.InvalidTensor, "k_scales", array(1, -2)),
        (attn_rs.InvalidTensor, "k_scales", array(1, np.inf)),
        (attn_rs.InvalidTensor, "k_scale", 0.0),
        (attn_rs.InvalidTensor, "k_scale is of float64", np.ones(2)),
        (attn_rs.InvalidTensor, "k_scale.*gaps", array(1, 2, 3)[::2]),
        (attn_rs.InvalidArgument, "k_scale is of the type `list`; it is a number", [1.0, 2.0]),
    ],
)
def test_what_is_no_scale(plan, error, text, scale):
    out = np.full_like(Q, 7)
    with pytest.raises(error, match=text):
        plan.run(Q, K, V, out=out, k_scale=scale)
    assert (out == 7).all()


def test_an_output_is_no_scale(plan):
    out = np.ones_like(Q)
    with pytest.raises(attn_rs.InvalidTensor, match="out shares memory with v_scale"):
        plan.run(Q, K, V, out=out, v_scale=out.reshape(-1)[:2])
