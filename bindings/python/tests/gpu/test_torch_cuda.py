"""Torch's graphs, streams, compiler and allocator, on a GPU."""

import gc
import os

import pytest

import attn_rs

torch = pytest.importorskip("torch")
HOW = {"qo_heads": 8, "kv_heads": 2, "head_dim": 128, "dtype": torch.bfloat16}


def rows(*shape, device="cuda"):
    return torch.randn(shape, device=device).bfloat16()


def exact(q, k, v):
    """One query a request over its keys, (requests, keys, heads, dim), in float32."""
    of = (x.float().swapaxes(1, 2) for x in (q[:, None], k, v))
    return torch.nn.functional.scaled_dot_product_attention(*of, enable_gqa=True)[:, :, 0]


def test_a_graph_is_replayed_with_other_batches(cuda):
    page_size, num_pages, lens = 16, 64, [100, 7, 33]
    tables = torch.randperm(num_pages)[: 3 * 12].reshape(3, 12)
    k, v = rows(num_pages, page_size, 2, 128), rows(num_pages, page_size, 2, 128)
    new_k, new_v, q = rows(3, 2, 128), rows(3, 2, 128), rows(3, 8, 128)
    o, slots = torch.empty_like(q), torch.zeros(3, dtype=torch.int64, device=cuda)

    def batch():
        return attn_rs.Batch.block_table([0, 1, 2, 3], tables, lens, page_size=page_size, num_pages=num_pages)

    capacity = attn_rs.Capacity(3, 3 * 12 * page_size, page_size=page_size, num_pages=num_pages)
    plan = attn_rs.Plan(batch(), "causal", capacity=capacity, device=cuda, **HOW)

    def step():
        plan.append(new_k, new_v, k, v, slots)
        plan.run(q, k, v, out=o)

    slots.fill_(-1)
    step()  # loads the kernels
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    for _ in range(5):
        slots.copy_(
            torch.tensor([int(tables[i, n // page_size]) * page_size + n % page_size for i, n in enumerate(lens)])
        )
        for x in (new_k, new_v, q):
            x.copy_(torch.randn_like(x))
        lens = [n + 1 for n in lens]
        plan.update(batch())
        graph.replay()
        for i, n in enumerate(lens):
            keys, values = (pool[tables[i].to(cuda)].reshape(-1, 2, 128)[None, :n] for pool in (k, v))
            torch.testing.assert_close(o[i : i + 1].float(), exact(q[i : i + 1], keys, values), atol=2e-2, rtol=2e-2)
            assert (keys[0, n - 1] == new_k[i]).all()
        assert o.isfinite().all()


def test_one_shot_calls_in_a_graph(cuda):
    q, k, v = rows(2, 64, 8, 128), rows(2, 64, 2, 128), rows(2, 64, 2, 128)
    graph = torch.cuda.CUDAGraph()
    with pytest.raises(attn_rs.AttnError, match="before the capture"), torch.cuda.graph(graph):
        attn_rs.attention(q, k, v, "causal + soft_cap(cap=17)")
    torch.cuda.synchronize()
    attn_rs.attention(q, k, v, "causal")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        o = attn_rs.attention(q, k, v, "causal")
    for _ in range(200):  # more shapes than are kept; those of graphs stay
        n = 1 + _
        attn_rs.attention(q[:, :n], k[:, :n], v[:, :n], "causal")
    q.copy_(torch.randn_like(q))
    graph.replay()
    assert torch.equal(o, attn_rs.attention(q, k, v, "causal"))


def test_side_streams_are_in_order(cuda):
    q, k, v = rows(4, 512, 8, 128), rows(4, 512, 2, 128), rows(4, 512, 2, 128)
    want = attn_rs.attention(q, k, v, "causal")
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    for _ in range(20):
        with torch.cuda.stream(side):
            scaled = [x.clone() for x in (q, k, v)]
            got = attn_rs.attention(*scaled, "causal")
            del scaled
            junk = rows(4, 512, 8, 128)
        torch.cuda.current_stream().wait_stream(side)
        assert torch.equal(got, want)
        del junk
    got = attn_rs.attention(q, k, v, "causal", stream=side.cuda_stream)
    side.synchronize()
    assert torch.equal(got, want)


@pytest.mark.parametrize("capacity", [None, attn_rs.Capacity(64, 64 * 300, qo_tokens=64)])
def test_a_graph_outlives_its_plan(cuda, capacity):
    q, k, v = rows(64, 8, 128), rows(64 * 300, 2, 128), rows(64 * 300, 2, 128)
    batch = attn_rs.Batch.ragged(list(range(65)), [300 * i for i in range(65)])
    sinks = torch.randn(8, device=cuda)
    plan = attn_rs.Plan(batch, "causal + sink", device=cuda, capacity=capacity, params={"sink.logits": sinks}, **HOW)
    layer = plan.layer("causal + sink", {"sink.logits": sinks + 1})
    outs, wants = ([torch.empty_like(q) for _ in range(2)] for _ in range(2))
    for out, of in zip(wants, (None, layer), strict=True):
        plan.run(q, k, v, out=out, layer=of)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for out, of in zip(outs, (None, layer), strict=True):
            plan.run(q, k, v, out=out, layer=of)
    before = torch.cuda.mem_get_info()[0]
    kept = plan.workspace_bytes
    del plan, layer, of
    gc.collect()
    # what takes the memory if it is free
    junk = [torch.full((1 << 20,), float("nan"), device=cuda) for _ in range(64)]
    others = [attn_rs.Plan(batch, "full", device=cuda, **HOW) for _ in range(4)]
    for _ in range(3):
        for out in outs:
            out.zero_()
        graph.replay()
        torch.cuda.synchronize()
        for out, want in zip(outs, wants, strict=True):
            assert torch.equal(out, want)
    del graph, junk, others
    gc.collect()
    torch.cuda.empty_cache()
    attn_rs.release_captured(cuda)
    assert torch.cuda.mem_get_info()[0] >= before + kept - (1 << 21)


def test_a_plan_that_is_released_frees_its_memory(cuda):
    q, k = rows(1, 8, 128), rows(1 << 16, 2, 128)
    batch = attn_rs.Batch.ragged([0, 1], [0, 1 << 16])

    def captured(release):
        plan = attn_rs.Plan(batch, "causal", device=cuda, capacity=attn_rs.Capacity(512, 1 << 22), **HOW)
        big, out = (torch.empty(512, 8, 128, dtype=q.dtype, device=cuda) for _ in range(2))
        keys = torch.empty(1 << 22, 2, 128, dtype=q.dtype, device=cuda)
        plan.run(big, keys, keys, out=out)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            plan.run(big, keys, keys, out=out)
        del graph
        if release:
            plan.release_captured()

    def free():
        gc.collect()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        return torch.cuda.mem_get_info()[0]

    captured(True)
    before = free()
    for _ in range(8):
        captured(True)
    assert free() >= before - (4 << 20)
    captured(False)
    assert free() < before, "what nobody released is kept"
    attn_rs.release_captured(cuda)
    assert free() >= before - (4 << 20)


def test_a_graph_outlives_a_call_of_attention(cuda):
    q, k, v = rows(2, 5, 8, 128), rows(2, 77, 2, 128), rows(2, 77, 2, 128)
    want = attn_rs.attention(q, k, v, "causal")
    side, out = torch.cuda.Stream(), torch.empty_like(want)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=side):
        attn_rs.attention(q, k, v, "causal", out=out, stream=side.cuda_stream)
    for keys in range(1, 76):  # the plan of the call gives way to others
        attn_rs.attention(q, k[:, :keys], v[:, :keys], "causal")
    out.zero_()
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(out, want)


def test_a_graph_outlives_the_plan_that_appends(cuda):
    k = rows(3, 2, 128)
    batch = attn_rs.Batch.block_table([0, 3], [[0]], [3], page_size=16, num_pages=1)
    plan = attn_rs.Plan(batch, "causal + rope", device=cuda, stores_transformed=True, **HOW)
    pools = [torch.zeros(1, 16, 2, 128, dtype=k.dtype, device=cuda) for _ in range(2)]
    slots, positions = torch.tensor([0, 1, 2], device=cuda), torch.tensor([0, 1, 2], dtype=torch.int32, device=cuda)
    plan.append(k, k, *pools, slots, positions=positions)
    want = [pool.clone() for pool in pools]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        plan.append(k, k, *pools, slots, positions=positions)
    del plan
    gc.collect()
    for pool in pools:
        pool.zero_()
    graph.replay()
    torch.cuda.synchronize()
    assert all(torch.equal(pool, of) for pool, of in zip(pools, want, strict=True))


def test_outputs_under_a_capacity_are_zero_past_the_batch(cuda):
    capacity = attn_rs.Capacity(4, 64, qo_tokens=4)
    plan = attn_rs.Plan(attn_rs.Batch.ragged([0, 1, 2], [0, 5, 9]), "full", device=cuda, capacity=capacity, **HOW)
    q, k = rows(4, 8, 128), rows(64, 2, 128)
    assert not plan.run(q, k, k)[2:].any()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        o = plan.run(q, k, k)
    for rows_of in (2, 1, 4, 3):
        plan.update(attn_rs.Batch.ragged(list(range(rows_of + 1)), [5 * i for i in range(rows_of + 1)]))
        graph.replay()
        torch.cuda.synchronize()
        assert o[:rows_of].any() and not o[rows_of:].any()


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_compile(device, mode):
    q, k, v = (rows(2, 8, 64, 128, device=device) for _ in range(3))
    sinks = torch.randn(8, device=device)

    def model(q, k, v, sinks):
        o = attn_rs.attention(q * 2, k, v, "causal + sink", params={"sink.logits": sinks}, layout="bhsd")
        return o.transpose(1, 2).flatten(2) + 1

    with torch.no_grad():
        compiled = torch.compile(model, fullgraph=True, mode=mode)
        for _ in range(4):
            sinks = sinks + 1
            torch.testing.assert_close(compiled(q, k, v, sinks).clone(), model(q, k, v, sinks))
        torch.library.opcheck(
            torch.ops.attn_rs.attention.default,
            (q, k, v, "causal", None, "", "", [], "bhsd", None, None, None, True),
        )


def test_sdpa(cuda):
    from torch.nn import attention

    import attn_rs.torch_sdpa

    if not hasattr(attention, "register_flash_attention_impl"):
        pytest.skip("torch has no registry of flash attentions")
    sdpa = torch.nn.functional.scaled_dot_product_attention

    def grads(q, k, v):
        q, k, v = (x.detach().clone().requires_grad_() for x in (q, k, v))
        with attention.sdpa_kernel(attention.SDPBackend.FLASH_ATTENTION):
            o = sdpa(q, k, v, is_causal=True)
            o.sum().backward()
        return o.detach(), q.grad, k.grad, v.grad

    q, k, v = (rows(2, 8, 128, 64) for _ in range(3))
    want = grads(q, k, v)
    attn_rs.torch_sdpa.register()
    attention.activate_flash_attention_impl("attn_rs")
    try:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            got = grads(q, k, v)
        names = [event.key for event in profile.key_averages()]
        assert not any("flash_fwd" in name for name in names), names
        for of, other in zip(got, want, strict=True):
            torch.testing.assert_close(of.float(), other.float(), atol=3e-2, rtol=3e-2)
    finally:
        attention.restore_flash_attention_impl()
    assert torch.equal(grads(q, k, v)[0], want[0])


def test_bad_tensors(cuda):
    q, k = rows(3, 8, 128), rows(9, 2, 128)
    plan = attn_rs.Plan(attn_rs.Batch.ragged([0, 3], [0, 9]), "causal", device=cuda, **HOW)
    for bad, text in [
        (q.cpu(), "is on cpu"),
        (q.half(), "f16"),
        (rows(3 * 8 * 128 + 1)[1:].view(3, 8, 128), "16|align"),
        (rows(3, 8, 256)[..., ::2], "contiguous"),
        (q[:2], "tokens"),
    ]:
        with pytest.raises(attn_rs.InvalidTensor, match=text):
            plan.run(bad, k, k)
    with pytest.raises(attn_rs.InvalidBatch, match="cpu()"):
        attn_rs.Batch.ragged(torch.tensor([0, 3], device=cuda), [0, 9])
    with pytest.raises((attn_rs.Unsupported, attn_rs.InvalidTensor)):
        attn_rs.attention(rows(1, 3, 8, 100), rows(1, 3, 8, 100), rows(1, 3, 8, 100))
    torch.testing.assert_close(plan.run(q, k, k).isfinite().all().cpu(), torch.tensor(True))


def test_arrays_of_cupy(cuda):
    cupy = pytest.importorskip("cupy")
    q, k, v = (cupy.random.standard_normal((2, n, h, 64)).astype(cupy.float16) for n, h in ((5, 8), (9, 2), (9, 2)))
    got = attn_rs.attention(q, k, v, "causal")
    assert type(got) is type(q)
    want = attn_rs.attention(*(torch.from_dlpack(x) for x in (q, k, v)), "causal")
    assert torch.equal(torch.from_dlpack(got), want)


@pytest.mark.alone
def test_ten_thousand_calls_leak_nothing(cuda):
    q, k, v = rows(1, 16, 8, 128), rows(1, 64, 2, 128), rows(1, 64, 2, 128)
    plan = attn_rs.Plan(attn_rs.Batch.ragged([0, 16], [0, 64]), "causal", device=cuda, **HOW)
    out = torch.empty_like(q[0])

    def used():
        torch.cuda.synchronize()
        gc.collect()
        with open(f"/proc/{os.getpid()}/statm") as statm:
            resident = int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        return torch.cuda.memory_allocated(), torch.cuda.mem_get_info()[0], resident

    def calls(count):
        for i in range(count):
            plan.run(q[0], k[0], v[0], out=out)
            attn_rs.attention(q, k, v, "causal")
            if i % 100 == 0:  # plans come and go
                attn_rs.attention(q, k[:, : 1 + i // 100 % 64], v[:, : 1 + i // 100 % 64], "full")

    calls(7000)
    before = used()
    calls(10_000)
    after = used()
    assert after[0] == before[0]
    assert before[1] - after[1] < 4 << 20, "device memory"
    assert after[2] - before[2] < 8 << 20, "host memory"
