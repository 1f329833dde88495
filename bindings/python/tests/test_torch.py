"""Tensors of torch on the CPU, its compiler and its autograd. Skipped without torch."""

import gc

import numpy as np
import pytest
import reference

import attn_rs

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def rows(*shape, dtype=torch.float32):
    return torch.randn(*shape).to(dtype)


@pytest.mark.parametrize(
    ("dtype", "kv_dtype", "tolerance"),
    [
        (torch.float32, torch.float32, 2e-6),
        (torch.bfloat16, torch.bfloat16, 2e-2),
        (torch.float16, torch.float16, 2e-3),
        (torch.float16, torch.float8_e4m3fn, 2e-3),
        (torch.bfloat16, torch.float8_e5m2, 2e-2),
    ],
)
def test_types(dtype, kv_dtype, tolerance):
    q, k, v = rows(2, 5, 4, 8, dtype=dtype), rows(2, 9, 2, 8).to(kv_dtype), rows(2, 9, 2, 8).to(kv_dtype)
    o = attn_rs.attention(q, k, v, "causal")
    assert o.dtype == dtype
    for i in range(2):
        want, _ = reference.attention(*(x[i].float().numpy() for x in (q, k, v)), reference.causal)
        np.testing.assert_allclose(o[i].float().numpy(), want, atol=tolerance)


def test_types_of_queries_and_outputs():
    e4m3, how = torch.float8_e4m3fn, {"qo_heads": 4, "kv_heads": 2, "head_dim": 8, "dtype": "bfloat16", "device": "cpu"}
    q, k, v = rows(5, 4, 8), rows(9, 2, 8, dtype=torch.bfloat16), rows(9, 2, 8, dtype=torch.bfloat16)
    batch, stored = attn_rs.Batch.ragged([0, 5], [0, 9]), (q * 8).to(e4m3)
    want, _ = reference.attention(*(x.float().numpy() for x in (stored.float() / 8, k, v)), reference.causal)
    for q_scale, o_scale in ((0.125, 0.25), (torch.tensor([0.125]), torch.tensor(0.25))):
        plan = attn_rs.Plan(batch, "causal", q_dtype=e4m3, o_dtype=e4m3, **how)
        o = plan.run(stored, k, v, q_scale=q_scale, o_scale=o_scale)
        assert o.dtype == e4m3
        np.testing.assert_allclose(o.float().numpy() * 0.25, want, rtol=0.07, atol=2e-3)
    plan = attn_rs.Plan(batch, "causal", q_dtype=e4m3, o_dtype="float32", **how)
    o = plan.run(stored, k, v, q_scale=0.125)
    assert o.dtype == torch.float32
    np.testing.assert_allclose(o.numpy(), want, atol=1e-5)
    plain = attn_rs.Plan(batch, "causal", q_dtype=e4m3, **how).run(stored, k, v, q_scale=0.125)
    assert plain.dtype == torch.bfloat16 and torch.equal(plain, o.bfloat16())
    with pytest.raises(attn_rs.InvalidTensor, match="o is f32 and has a scale"):
        plan.run(stored, k, v, o_scale=0.5)
    with pytest.raises(attn_rs.InvalidTensor, match="q is bf16"):
        plan.run(q.bfloat16(), k, v)
    for given, text in (({"o_dtype": "float8_e5m2"}, "o is e5m2"), ({"q_dtype": torch.float16}, "q is stored as f16")):
        with pytest.raises(attn_rs.AttnError, match=text):
            attn_rs.Plan(batch, "causal", **given, **how)


@pytest.mark.parametrize("causal", [False, True])
def test_the_same_as_sdpa(causal):
    q, k, v = rows(3, 4, 17, 16), rows(3, 4, 17, 16), rows(3, 4, 17, 16)
    want = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
    got = attn_rs.attention(q, k, v, "causal" if causal else "full", layout="bhsd")
    torch.testing.assert_close(got, want)


def test_parameters_are_read_by_every_call_and_are_on_the_device():
    q, k, v = rows(1, 3, 4, 8), rows(1, 5, 2, 8), rows(1, 5, 2, 8)
    sinks = torch.nn.Parameter(torch.randn(4).to(torch.bfloat16))
    for _ in range(2):
        with torch.no_grad():
            o = attn_rs.attention(q, k, v, "causal + sink", params={"sink.logits": sinks})
            want, _ = reference.attention(q[0], k[0], v[0], reference.causal, sink=sinks.float().numpy())
            np.testing.assert_allclose(o[0].numpy(), want, atol=2e-6)
            sinks.data.add_(1.0)  # no version of the tensor tells of it


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("layout", ["bshd", "bhsd"])
def test_compile(backend, layout):
    q, k, v, sinks = rows(2, 6, 6, 16), rows(2, 6, 6, 16), rows(2, 6, 6, 16), rows(6)

    def model(q, k, v, sinks):
        params = {"sink.logits": sinks, "cap": 5.0}
        o, lse = attn_rs.attention(
            q * 2, k, v, "causal + soft_cap(cap=1) + sink", params=params, layout=layout, return_lse=True
        )
        return o + 1, lse

    with torch.no_grad():
        compiled = torch.compile(model, fullgraph=True, backend=backend)
        for _ in range(2):
            for got, want in zip(compiled(q, k, v, sinks), model(q, k, v, sinks), strict=True):
                torch.testing.assert_close(got, want)
                assert got.stride() == want.stride()
            sinks = sinks + 1


def test_a_plan_is_compiled():
    q, k, v = rows(6, 4, 16), rows(9, 2, 16), rows(9, 2, 16)
    batch = attn_rs.Batch.ragged([0, 6], [0, 9])
    plan = attn_rs.Plan(batch, "causal", qo_heads=4, kv_heads=2, head_dim=16, dtype=q.dtype, device=q.device)
    with torch.no_grad():
        with pytest.raises(Exception, match="compilable"):
            torch.compile(lambda q: plan.run(q, k, v), fullgraph=True, backend="eager")(q)
        plan.compilable()
        got = torch.compile(lambda q: plan.run(q + 1, k, v), fullgraph=True, backend="aot_eager")(q)
        torch.testing.assert_close(got, plan.run(q + 1, k, v))


@pytest.mark.parametrize("layout", ["bshd", "bhsd"])
@pytest.mark.parametrize("return_lse", [False, True])
def test_fake_kernels_have_the_shapes_of_the_real_ones(layout, return_lse):
    import attn_rs._torch  # noqa: F401  # registers the op

    q, k, v = rows(2, 6, 6, 16), rows(2, 6, 6, 16), rows(2, 6, 6, 8)
    given = (q, k, v, "causal", None, "", "", [], layout, None, None, None, return_lse)
    torch.library.opcheck(torch.ops.attn_rs.attention.default, given)


def test_a_backward_pass_raises():
    q, k, v = rows(1, 3, 4, 8).requires_grad_(), rows(1, 5, 2, 8), rows(1, 5, 2, 8)
    o = attn_rs.attention(q, k, v, "causal")
    for backward in (o.sum().backward, lambda: torch.autograd.grad(o.sum(), q)):
        with pytest.raises(attn_rs.Unsupported, match="the forward pass alone, and autograd asks"):
            backward()
    o, lse = attn_rs.attention(q, k, v, "causal", return_lse=True)
    with pytest.raises(attn_rs.Unsupported, match="autograd"):
        lse.sum().backward()
    plan = attn_rs.Plan(
        attn_rs.Batch.ragged([0, 3], [0, 5]), qo_heads=4, kv_heads=2, head_dim=8, dtype=q.dtype, device="cpu"
    )
    with pytest.raises(attn_rs.InvalidArgument, match="no_grad"):
        plan.run(q[0], k[0], v[0])


def test_bad_tensors():
    q, k = rows(1, 3, 4, 8), rows(1, 5, 2, 8)
    plan = attn_rs.Plan(
        attn_rs.Batch.ragged([0, 3], [0, 5]), qo_heads=4, kv_heads=2, head_dim=8, dtype=q.dtype, device="cpu"
    )
    freed = rows(3, 4, 8)
    freed.untyped_storage().resize_(0)
    for bad, text in [
        (freed, "no memory"),
        (q[0].to("meta"), "meta"),
        (q[0].double(), "float64"),
        (q[0].to(torch.complex64), "complex64"),
        (q[0].half(), "f16"),
        (torch.empty(3, 4, 16)[..., ::2], "contiguous"),
        (q[0].to_sparse(), None),
    ]:
        with pytest.raises((attn_rs.AttnError, RuntimeError), match=text):
            plan.run(bad, k[0], k[0], out=rows(3, 4, 8))
    with pytest.raises(attn_rs.AttnError, match="meta"):
        attn_rs.attention(q.to("meta"), k.to("meta"), k.to("meta"))
    with pytest.raises(attn_rs.InvalidArgument, match="layout"):
        attn_rs.attention(q, k, k, layout="sbhd")


def test_tensors_are_released():
    gc.collect()
    before = sum(isinstance(x, torch.Tensor) for x in gc.get_objects())
    q, k = rows(1, 3, 4, 8), rows(1, 5, 2, 8)
    for _ in range(300):
        attn_rs.attention(q, k, k, "causal + sink", params={"sink.logits": rows(4)})
    del q, k
    gc.collect()
    assert sum(isinstance(x, torch.Tensor) for x in gc.get_objects()) <= before


def test_a_quantised_cache_has_scales():
    n, page_size = 9, 4
    q, k, v = rows(1, 4, 8, dtype=torch.float16), rows(n, 2, 8, dtype=torch.float16), rows(n, 2, 8, dtype=torch.float16)
    k_pool, v_pool = (torch.zeros(3, page_size, 2, 8).to(torch.float8_e4m3fn) for _ in range(2))
    batch = attn_rs.Batch.block_table([0, 1], torch.tensor([[2, 0, 1]]), [n], page_size=page_size, num_pages=3)
    how = {"qo_heads": 4, "kv_heads": 2, "head_dim": 8, "device": "cpu", "dtype": q.dtype}
    plan = attn_rs.Plan(batch, "causal", kv_dtype=k_pool.dtype, **how)
    slots = torch.tensor([[2, 0, 1][i // page_size] * page_size + i % page_size for i in range(n)])
    scales = {"k_scale": 0.5, "v_scale": 4.0}
    plan.append(k, v, k_pool, v_pool, slots, **scales)
    stored = (pool.float().reshape(-1, 2, 8)[slots] for pool in (k_pool, v_pool))
    k8, v8 = (of * scale for of, scale in zip(stored, (0.5, 4.0), strict=True))
    torch.testing.assert_close(k8, k.float(), atol=0.2, rtol=0.07)
    want, _ = reference.attention(q.float().numpy(), k8.numpy(), v8.numpy())
    np.testing.assert_allclose(plan.run(q, k_pool, v_pool, **scales).float().numpy(), want, atol=4e-3)


def test_views_that_have_other_elements_than_their_memory():
    """Torch negates the imaginary parts of a conjugate when they are read."""
    q, k = torch.randn(1, 3, 4, 8), torch.randn(1, 9, 2, 8)
    negated = torch.complex(q, q).conj().imag
    assert negated.is_neg()
    for call in (lambda: attn_rs.attention(negated, k, k), lambda: attn_rs.attention(k, k, k, out=torch._neg_view(k))):
        with pytest.raises(attn_rs.InvalidTensor, match="resolve_neg"):
            call()
    torch.testing.assert_close(attn_rs.attention(negated.resolve_neg(), k, k), attn_rs.attention(-q, k, k))
    with pytest.raises(attn_rs.InvalidTensor, match="has no memory of its own"):
        torch.vmap(lambda q: attn_rs.attention(q[None], k, k))(q)


def test_calls_that_a_registered_variant_would_not_reach():
    """Torch sends them to attentions that know nothing of it."""
    from attn_rs import torch_sdpa
    from torch.nn.attention import SDPBackend, sdpa_kernel

    q = torch.randn(1, 2, 4, 16)
    handle = torch_sdpa._Handle("soft_cap(cap=2)", "CPU")
    try:
        with (
            sdpa_kernel(SDPBackend.MATH),
            pytest.raises(attn_rs.Unsupported, match="`soft_cap\\(cap=2\\)` is registered"),
        ):
            torch.nn.functional.scaled_dot_product_attention(q, q, q)
        lens = torch.tensor([0, 4], dtype=torch.int32)
        of_lens = (q[0], q[0], q[0], lens, lens, 4, 4, 0.0, False, False)
        with pytest.raises(attn_rs.Unsupported, match="is registered for all calls"):
            torch.ops.aten._flash_attention_forward(*of_lens)
        layer, rows = torch.nn.MultiheadAttention(16, 2, batch_first=True).eval(), q[:, 0]
        with torch.no_grad(), pytest.raises(attn_rs.Unsupported, match="is registered for all calls"):
            layer(rows, rows, rows, need_weights=False)
        with pytest.raises(attn_rs.Unsupported, match="return_debug_mask"):
            torch.ops.aten._scaled_dot_product_flash_attention(q, q, q, 0.0, False, True)
    finally:
        handle.remove()
    with sdpa_kernel(SDPBackend.MATH):
        torch.nn.functional.scaled_dot_product_attention(q, q, q)
