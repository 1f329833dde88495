"""What an `Attention` and a `Plan` take beside tensors, and log-sum-exps of base 2."""

import ctypes

import numpy as np
import pytest
import reference

import attn_rs

RNG = np.random.default_rng(7)
HOW = {"qo_heads": 4, "kv_heads": 2, "head_dim": 8, "dtype": "float32", "device": "cpu"}
ARGUMENTS = ("cpu", 4, 2, 8, None, "float32", "float32")
Q, K, V = (RNG.standard_normal(shape).astype("float32") for shape in ((3, 4, 8), (9, 2, 8), (9, 2, 8)))
BATCH = attn_rs.Batch.ragged([0, 3], [0, 9])


def close(a, b):
    np.testing.assert_allclose(a, b, atol=2e-6)


def test_numbers_without_defaults_are_in_the_parameters():
    attention = attn_rs.Attention("causal + soft_cap", {"soft_cap.cap": 2.0}, *ARGUMENTS)
    assert attention.variant == "causal + soft_cap(cap=2)"
    close(
        attn_rs.Plan(BATCH, attention=attention).run(Q, K, V), reference.attention(Q, K, V, reference.causal, cap=2)[0]
    )
    with pytest.raises(attn_rs.InvalidVariant, match="`cap` .*has no default and was not given"):
        attn_rs.Attention("soft_cap", {}, *ARGUMENTS)


def test_plans_of_an_attention():
    first = attn_rs.Plan(BATCH, "causal + sink", params={"logits": [1.0, 2.0, 3.0, 4.0]}, scale=0.3, **HOW)
    for batch in (BATCH, attn_rs.Batch.ragged([0, 1, 3], [0, 4, 9])):
        plan = attn_rs.Plan(batch, attention=first.attention)
        assert plan.attention is first.attention
        want = attn_rs.Plan(batch, "causal + sink", params={"logits": [1.0, 2.0, 3.0, 4.0]}, scale=0.3, **HOW)
        np.testing.assert_array_equal(plan.run(Q, K, V), want.run(Q, K, V))
    layer = first.layer("causal + sink", {"logits": [0.0] * 4})
    np.testing.assert_array_equal(attn_rs.Plan(BATCH, attention=layer).run(Q, K, V), first.run(Q, K, V, layer=layer))


@pytest.mark.parametrize(
    ("error", "text", "how"),
    [
        (attn_rs.InvalidArgument, "qo_heads, dtype: given beside `attention`", {"qo_heads": 4, "dtype": "float32"}),
        (attn_rs.InvalidArgument, "variant: given beside `attention`", {"variant": "causal"}),
        (attn_rs.InvalidArgument, "stores_transformed: given beside", {"stores_transformed": True}),
        (attn_rs.InvalidArgument, "attention is of the type `str`; it is an `Attention`", {"attention": "causal"}),
        (attn_rs.InvalidArgument, "qo_heads, kv_heads, head_dim, dtype, device: not given", {"attention": None}),
        (attn_rs.InvalidArgument, "dtype: not given", {**HOW, "attention": None, "dtype": None}),
        (attn_rs.InvalidArgument, "reuse is of the type `int`", {"reuse": 3}),
    ],
)
def test_what_plans_refuse(error, text, how):
    attention = attn_rs.Attention("full", None, *ARGUMENTS)
    with pytest.raises(error, match=text):
        attn_rs.Plan(BATCH, **{"attention": attention, **how})


def test_a_plan_takes_the_memory_of_another():
    old = attn_rs.Plan(BATCH, "causal", **HOW)
    new = attn_rs.Plan(BATCH, attention=old.attention, reuse=old)
    close(new.run(Q, K, V), reference.attention(Q, K, V, reference.causal)[0])


def packed(*masks):
    rows = [np.packbits(mask.reshape(-1), bitorder="little") for mask in masks]
    return np.concatenate(rows), np.cumsum([0, *map(len, rows)])


def test_masks():
    batch = attn_rs.Batch.ragged([0, 1, 3], [0, 4, 9])
    masks = [RNG.random((queries, keys)) < 0.5 for queries, keys in ((1, 4), (2, 5))]
    bits, indptr = packed(*masks)

    def check(plan, masks):
        o = plan.run(Q, K, V)
        for (own, keys), mask in zip(((slice(0, 1), slice(0, 4)), (slice(1, 3), slice(4, 9))), masks, strict=True):
            seen = lambda qo, kv: mask & (kv <= qo)  # noqa: B023, E731
            close(o[own], reference.attention(Q[own], K[keys], V[keys], seen)[0])

    for given in (bits, bits.tobytes()):
        plan = attn_rs.Plan(batch, "causal", mask=(given, indptr), **HOW)
        check(plan, masks)
    attention = attn_rs.Attention("causal", None, *ARGUMENTS, mask=(bits, list(indptr)))
    check(attn_rs.Plan(batch, attention=attention), masks)
    for error, text, mask in [
        (attn_rs.InvalidArgument, "mask_indptr", (bits, [0, 1])),
        (attn_rs.InvalidTensor, "mask is of int32", (bits.astype("int32"), indptr)),
        (attn_rs.InvalidTensor, "mask is a list", (bits.tolist(), indptr)),
        (attn_rs.InvalidArgument, "mask is of the type `bytes`; it is a pair", bits.tobytes()),
    ]:
        with pytest.raises(error, match=text):
            attn_rs.Plan(batch, "causal", mask=mask, **HOW)
    # other bits in their place, which plans do not depend on
    others = [~mask for mask in masks]
    plan.attention.set_tensor("custom_mask.bits", packed(*others)[0])
    plan.attention.set_tensor("custom_mask.offset", np.array([0, 8 * indptr[1]], dtype=np.int32))
    check(plan, others)


class Bf16:
    """An array of uint16 whose elements are bfloat16."""

    def __init__(self, array):
        self.array = (array.astype("float32").view(np.uint32) >> 16).astype(np.uint16)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, **options):
        capsule = self.array.__dlpack__()
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        # after the address, the device and the number of dimensions
        ctypes.c_uint8.from_address(pointer(capsule, b"dltensor") + 20).value = 4
        return capsule


def test_tensors_are_replaced_by_elements_of_their_type():
    gates = [np.array([[0.5, 2.0, 1.0, 0.0]] * 3, dtype=np.float32), np.arange(12, dtype=np.float32).reshape(3, 4)]
    plan = attn_rs.Plan(BATCH, "head_gate", params={"gate": gates[0]}, **HOW)
    first = plan.run(Q, K, V)
    want = attn_rs.Plan(BATCH, "head_gate", params={"gate": gates[1]}, **HOW).run(Q, K, V)
    plan.attention.set_tensor("head_gate.gate", Bf16(gates[1]))
    np.testing.assert_array_equal(plan.run(Q, K, V), want)
    plan.attention.set_tensor_rows("gate", np.array([1], dtype=np.int32), Bf16(gates[0][:1]))
    np.testing.assert_array_equal(plan.run(Q, K, V)[1], first[1])
    for text, values in [
        ("`gate` is of bf16; got f32", gates[0]),
        ("`gate` is of bf16; got u8", gates[0].astype("uint8")),
        ("`gate` is of bf16; got bool", gates[0] > 0),
        ("gate is of int64; parameter tensors are of float32", gates[0].astype("int64")),
        ("gate has a byte that is no bool", np.full((3, 4), 2, dtype=np.uint8).view(bool)),
        ("gate.* takes 24 bytes", Bf16(gates[0][:2])),
        ("gate has gaps", gates[0][:, ::2]),
    ]:
        with pytest.raises(attn_rs.InvalidTensor, match=text):
            plan.attention.set_tensor("gate", values)


def test_log_sum_exps_of_base_2():
    plan = attn_rs.Plan(BATCH, "causal", **HOW)
    o, lse = plan.run(Q, K, V, return_lse=True)
    of_2 = lse * np.float32(np.log2(np.e))
    for how in ({"lse_base": 2}, {"lse_base": 2, "lse": np.zeros((3, 4), dtype=np.float32)}):
        same, got = plan.run(Q, K, V, return_lse=True, **how)
        np.testing.assert_array_equal(same, o)
        close(got, of_2)
    np.testing.assert_array_equal(plan.run(Q, K, V, return_lse=True, lse_base="e")[1], lse)
    np.testing.assert_array_equal(plan.run(Q, K, V, lse_base=2), o)
    got = attn_rs.attention(Q[None], K[None], V[None], "causal", return_lse=True, lse_base=2)[1]
    close(got[0], of_2)
    none = attn_rs.Plan(attn_rs.Batch.ragged([0, 3], [0, 0]), **HOW)
    assert (none.run(Q, K[:0], V[:0], return_lse=True, lse_base=2)[1] == -np.inf).all()
    for base in (10, "2", None, np.e):
        for call in (
            lambda: plan.run(Q, K, V, lse_base=base),  # noqa: B023
            lambda: attn_rs.attention(Q[None], K[None], V[None], lse_base=base),  # noqa: B023
        ):
            with pytest.raises(attn_rs.InvalidArgument, match='lse_base is .*; it is 2 or "e"'):
                call()
