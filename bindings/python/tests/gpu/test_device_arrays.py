"""Lengths, pages, places, scales and masks that only the device knows, also in CUDA graphs of torch."""

import math

import pytest

import attn_rs

torch = pytest.importorskip("torch")
HOW = {"qo_heads": 8, "kv_heads": 2, "head_dim": 128, "dtype": torch.bfloat16}
PAGE, PAGES = 16, 64


def rows(*shape, device="cuda"):
    return torch.randn(shape, device=device).bfloat16()


def ints(*numbers, device="cuda"):
    return torch.tensor(numbers, dtype=torch.int32, device=device)


def captured(step):
    """A graph of a step, which ran before and so has loaded its kernels."""
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph


def one_row(q, k, v):
    """One query over its keys, in float32."""
    q, k, v = q[None, :, None].float(), k.swapaxes(0, 1)[None].float(), v.swapaxes(0, 1)[None].float()
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)[0, :, 0]


def close(a, b):
    torch.testing.assert_close(a.float(), b, atol=2e-2, rtol=2e-2)


@pytest.mark.parametrize("rows_of", ["padded", "compressed"])
def test_a_graph_plans_and_appends_by_tensors_of_the_device(cuda, rows_of):
    lens, qo_indptr = ints(100, 7, 33), ints(0, 1, 2, 3)
    table = torch.randperm(PAGES, device=cuda)[:36].reshape(3, 12).int()
    page_indptr, page_indices = ints(0, 12, 24, 36), table.reshape(-1)
    requests, positions = ints(0, 1, 2), torch.zeros(3, dtype=torch.int32, device=cuda)
    pool = rows(PAGES, PAGE, 2, 256)  # keys and values of a slot side by side
    k_pool, v_pool = pool[..., :128], pool[..., 128:]
    k, v, q = rows(3, 2, 128), rows(3, 2, 128), rows(3, 8, 128)
    o, lse = torch.empty_like(q), torch.empty(3, 8, device=cuda)
    first = attn_rs.Batch.block_table([0, 1], [[0]], [1], page_size=PAGE, num_pages=PAGES)
    capacity = attn_rs.Capacity(3, 3 * 12 * PAGE, page_size=PAGE, num_pages=PAGES)
    plan = attn_rs.Plan(first, "causal", capacity=capacity, device=cuda, **HOW)
    if rows_of == "padded":
        batch = attn_rs.DeviceBatch.block_table(qo_indptr, table, lens)
        pages = {"block_table": table}
    else:
        batch = attn_rs.DeviceBatch.paged(qo_indptr, lens, page_indptr, page_indices)
        pages = {"page_indptr": page_indptr, "page_indices": page_indices}

    def step():
        positions.copy_(lens)
        positions.sub_(1)
        plan.append(k, v, k_pool, v_pool, batch_indices=requests, positions=positions, **pages)
        plan.update_on_device(batch)
        plan.run(q, k_pool, v_pool, out=o, lse=lse, lse_base=2)

    plan.prepare_device_updates()
    step()
    graph = captured(step)
    for _ in range(5):
        for x in (k, v, q):
            x.copy_(torch.randn_like(x))
        lens.add_(1)
        graph.replay()
        for i, n in enumerate(lens.tolist()):
            keys, values = (of[table[i].long()].reshape(-1, 2, 128)[:n] for of in (k_pool, v_pool))
            assert (keys[-1] == k[i]).all() and (values[-1] == v[i]).all()
            close(o[i], one_row(q[i], keys, values))
    _, natural = plan.run(q, k_pool, v_pool, return_lse=True)
    torch.testing.assert_close(lse, natural * math.log2(math.e))
    plan.device_status()
    table.fill_(PAGES)
    o.zero_()
    graph.replay()
    assert not o.any()
    with pytest.raises(attn_rs.InvalidBatch):
        plan.device_status()


def test_outputs_are_zero_past_a_batch_of_the_device(cuda):
    capacity = attn_rs.Capacity(4, 64)
    plan = attn_rs.Plan(attn_rs.Batch.ragged(range(5), [0, 5, 9, 9, 9]), device=cuda, capacity=capacity, **HOW)
    q, k, lens = rows(4, 8, 128), rows(64, 2, 128), ints(5, 6, 7, 8)
    plan.update_on_device(attn_rs.DeviceBatch.ragged(ints(0, 1, 2, 2, 2), lens))
    o = plan.run(q, k, k)
    assert o[:2].any() and not o[2:].any()


@pytest.mark.parametrize(("kernel", "levels"), [("prefill", None), ("mixed", None), (None, 2)])
def test_prefill_is_planned_on_the_device(cuda, kernel, levels):
    capacity = attn_rs.Capacity(4, 4096, qo_tokens=600, levels=levels)
    batch = attn_rs.Batch.ragged([0, 7], [0, 9])
    plan = attn_rs.Plan(batch, "causal", device=cuda, capacity=capacity, kernel=kernel, **HOW)
    q, k, v = rows(600, 8, 128), rows(4096, 2, 128), rows(4096, 2, 128)
    qo, lens = [0, 301, 302, 302, 600], [900, 33, 5, 2000]
    plan.update(attn_rs.Batch.ragged(qo, [0, 900, 933, 938, 2938]))
    by_host = plan.run(q, k, v)
    plan.update(batch)
    plan.update_on_device(attn_rs.DeviceBatch.ragged(ints(*qo), ints(*lens)))
    assert torch.equal(plan.run(q, k, v), by_host)


def test_tensors_have_the_rows_of_a_bound_of_queries(cuda):
    capacity = attn_rs.Capacity(4, 4096, qo_tokens=600)
    how = {"device": cuda, "capacity": capacity, "kernel": "prefill", **HOW}
    plan = attn_rs.Plan(attn_rs.Batch.ragged([0, 7], [0, 9]), "causal", **how)
    q, k, v = rows(302, 8, 128), rows(4096, 2, 128), rows(4096, 2, 128)
    qo, lens = ints(0, 301, 302, 302, 302), ints(900, 33, 5, 2000)
    plan.update_on_device(attn_rs.DeviceBatch.ragged(qo, lens, qo_tokens=302))
    o = plan.run(q, k, v)
    plan.device_status()
    plan.update(attn_rs.Batch.ragged([0, 301, 302], [0, 900, 933]))
    assert torch.equal(plan.run(q, k, v), o)
    # one query more than the bound: nothing is written
    plan.update_on_device(attn_rs.DeviceBatch.ragged(qo, lens, qo_tokens=301))
    assert not plan.run(q, k, v).any()
    with pytest.raises(attn_rs.InvalidBatch, match="302 queries; the .* is 301"):
        plan.device_status()
    # without a bound, and where it was captured, tensors have the rows of the capacity
    plan.update_on_device(attn_rs.DeviceBatch.ragged(qo, lens))
    with pytest.raises(attn_rs.InvalidTensor):
        plan.run(q, k, v)
    whole = rows(600, 8, 128)
    bounded = attn_rs.DeviceBatch.ragged(qo, lens, qo_tokens=302)
    graph = captured(lambda: (plan.update_on_device(bounded), plan.run(whole, k, v, out=torch.empty_like(whole))))
    graph.replay()
    plan.update_on_device(bounded)
    with pytest.raises(attn_rs.InvalidTensor):
        plan.run(q, k, v)


def test_slots_of_int32_and_a_counter_in_a_graph(cuda):
    k, slots = rows(4, 2, 128), ints(3, -1, 70, 5)
    k_pool, v_pool = (torch.zeros(PAGE, 2, 128, dtype=k.dtype, device=cuda) for _ in range(2))  # pages of one slot
    status = torch.zeros(1, dtype=torch.int32, device=cuda)
    step = lambda: attn_rs.append(k, k, k_pool, v_pool, slots, status=status)  # noqa: E731
    step()
    graph = captured(step)
    assert status.item() == 1
    for pool in (k_pool, v_pool):
        pool.zero_()
    slots.copy_(ints(99, 7, 16, -1))
    graph.replay()
    assert status.item() == 3
    for pool in (k_pool, v_pool):
        assert torch.equal(pool[7], k[1])
        assert pool.any(dim=-1).any(dim=-1).sum() == 1


def test_scales_are_read_anew(cuda):
    q, k, v = rows(2, 8, 128), rows(300, 2, 128), rows(300, 2, 128)
    batch = attn_rs.Batch.ragged([0, 1, 2], [0, 100, 300])
    k8, v8 = k.to(torch.float8_e4m3fn), v.to(torch.float8_e4m3fn)
    plan = attn_rs.Plan(batch, "causal", device=cuda, kv_dtype=torch.float8_e4m3fn, **HOW)
    k_scale, v_scale = torch.tensor([0.5, 2.0], device=cuda), torch.tensor(1.0, device=cuda)
    o = torch.empty_like(q)
    step = lambda: plan.run(q, k8, v8, out=o, k_scale=k_scale, v_scale=v_scale)  # noqa: E731
    step()
    graph = captured(step)
    for scale in (1.0, 3.0):
        k_scale.copy_(torch.tensor([scale, 0.25], device=cuda))
        v_scale.fill_(scale)
        graph.replay()
        keys, values = k8.float() * k_scale[:, None], v8.float() * v_scale
        for i, own in enumerate((slice(0, 100), slice(100, 300))):
            torch.testing.assert_close(o[i].float(), one_row(q[i], keys[own], values[own]), atol=5e-2, rtol=5e-2)
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    got = plan.run(q, k8, v8, k_scale=k_scale, v_scale=v_scale, stream=side.cuda_stream)
    side.synchronize()
    assert torch.equal(got, o)
    pools = [torch.zeros(20, PAGE, 2, 128, dtype=torch.float8_e4m3fn, device=cuda) for _ in range(2)]
    attn_rs.append(k, v, *pools, torch.arange(300, device=cuda), k_scale=k_scale, v_scale=v_scale)
    stored = pools[0].view(-1, 2, 128)[:300].float() * k_scale[:, None]
    torch.testing.assert_close(stored, k.float(), atol=0.5, rtol=0.07)


DRAFTS = """
use attn::prelude::*;
use attn::lang::{Bits, Tensor1};

/// A bit for each key of one query, which change while plans live on.
#[derive(Clone, VariantParams)]
struct DraftsInPython { size: i32, #[mutable] #[shape(size)] bits: Tensor1<Bits> }

#[attention_variant]
impl AttentionVariant for DraftsInPython {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        self.bits[at.kv_pos]
    }
}
"""


def test_bits_are_replaced_in_a_graph(cuda):
    attn_rs.variant(DRAFTS)
    q, k, v = rows(1, 8, 128), rows(64, 2, 128), rows(64, 2, 128)
    bits = torch.full((8,), 255, dtype=torch.uint8, device=cuda)
    batch = attn_rs.Batch.ragged([0, 1], [0, 64])
    params = {"size": 64, "bits": [True] * 64}
    plan = attn_rs.Plan(batch, "causal + drafts_in_python", params=params, device=cuda, **HOW)
    o = torch.empty_like(q)

    def step():
        plan.attention.set_tensor("drafts_in_python.bits", bits)
        plan.run(q, k, v, out=o)

    step()
    close(o[0], one_row(q[0], k, v))
    graph = captured(step)
    bits.copy_(torch.tensor([0, 0, 0, 255, 0, 15, 0, 0], dtype=torch.uint8, device=cuda))
    graph.replay()
    seen = [*range(24, 32), *range(40, 44)]
    close(o[0], one_row(q[0], k[seen], v[seen]))
    with pytest.raises(attn_rs.InvalidTensor, match="mask is on cuda"):
        attn_rs.Plan(batch, "causal", device=cuda, mask=(bits, [0, 8]), **HOW)


def test_a_cascade_is_captured(cuda):
    capacity = attn_rs.Capacity(4, 4 * 600, page_size=PAGE, num_pages=PAGES, levels=2)
    q, k, v, o = rows(4, 8, 128), rows(PAGES, PAGE, 2, 128), rows(PAGES, PAGE, 2, 128), rows(4, 8, 128)
    page = {"page_size": PAGE, "num_pages": PAGES}

    def cascade(prompt):
        shared = attn_rs.Batch.paged([0, 4], [0, prompt], list(range(prompt)), [PAGE], **page)
        own = attn_rs.Batch.paged(range(5), range(5), [60, 61, 62, 63], [3, 1, PAGE, 9], **page)
        return attn_rs.Batch.cascade(range(5), [shared, own])

    plan = attn_rs.Plan(cascade(30), "causal", device=cuda, capacity=capacity, **HOW)
    step = lambda: plan.run(q, k, v, out=o)  # noqa: E731
    step()
    graph = captured(step)
    for prompt in (30, 2, 11):
        plan.update(cascade(prompt))
        graph.replay()
        for i, last in enumerate((3, 1, PAGE, 9)):
            keys, values = (torch.cat([pool[:prompt].reshape(-1, 2, 128), pool[60 + i, :last]]) for pool in (k, v))
            close(o[i], one_row(q[i], keys, values))


def test_base_2_under_compile(device):
    q, k, v = (rows(2, 64, 8, 128, device=device) for _ in range(3))
    with torch.no_grad():
        call = lambda: attn_rs.attention(q, k, v, "causal", return_lse=True, lse_base=2)[1]  # noqa: E731
        torch.testing.assert_close(torch.compile(call, fullgraph=True)(), call())
