"""FlashInfer's API on a device: calls over block tables in CUDA graphs, scales and strides of NVFP4."""

import math

import pytest

import attn_rs

torch = pytest.importorskip("torch")
import attn_rs.flashinfer as flashinfer  # noqa: E402

HEADS, KV_HEADS, DIM, PAGE, PAGES = 8, 2, 128, 16, 48


def ints(device, *numbers):
    return torch.tensor(numbers, dtype=torch.int32, device=device)


def rows(device, *shape):
    return torch.randn(shape, device=device).bfloat16()


def one_row(q, k, v, scale):
    """One query over its keys, in float32."""
    q, k, v = q[None, :, None].float(), k.swapaxes(0, 1)[None].float(), v.swapaxes(0, 1)[None].float()
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True, scale=scale)[0, :, 0]


def check(o, q, cache, table, lens, scale):
    for request, m in enumerate(lens.tolist()):
        k, v = (cache[table[request].long(), part].flatten(0, 1)[:m] for part in (0, 1))
        torch.testing.assert_close(o[request].float(), one_row(q[request], k, v, scale), atol=2e-2, rtol=2e-2)


def test_calls_over_block_tables_in_a_graph(cuda):
    q, cache = rows(cuda, 3, HEADS, DIM), rows(cuda, PAGES, 2, PAGE, KV_HEADS, DIM)
    table, lens = torch.randperm(PAGES, device=cuda)[:24].reshape(3, 8).int(), ints(cuda, 100, 7, 33)
    scale, out = torch.tensor([DIM**-0.5], device=cuda), torch.empty_like(q)
    workspace = torch.empty(16, dtype=torch.uint8, device=cuda)

    def step():
        of = q, cache, workspace, table, lens, 128, scale, 1.0
        flashinfer.trtllm_batch_decode_with_kv_cache(*of, kv_layout="NHD", out=out)

    step()
    check(out, q, cache, table, lens, DIM**-0.5)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    for factor in (1.0, 0.5):
        lens.copy_(ints(cuda, 128, 1, 64))
        table.copy_(torch.randperm(PAGES, device=cuda)[:24].reshape(3, 8))
        scale.fill_(factor * DIM**-0.5)
        graph.replay()
        torch.cuda.synchronize()
        check(out, q, cache, table, lens, factor * DIM**-0.5)
    other = q[:2].clone()
    with pytest.raises(attn_rs.Unsupported, match="once before the capture"), torch.cuda.graph(torch.cuda.CUDAGraph()):
        attn_rs.paged_attention(other, cache[:, 0], cache[:, 1], table[:2], lens[:2])


def test_latent_decode_over_block_tables(device):
    latent, q = rows(device, PAGES, PAGE, 576), rows(device, 2, 1, 16, 576)
    table, lens = torch.randperm(PAGES, device=device)[:8].reshape(2, 4).int(), ints(device, 50, 9)
    workspace = torch.empty(16, dtype=torch.uint8, device=device)
    of = q, latent, workspace, 128, 512, 64, table, lens, 64
    for _ in range(2):
        o = flashinfer.trtllm_batch_decode_with_kv_cache_mla(*of, bmm1_scale=0.05)
    for request, m in enumerate(lens.tolist()):
        keys = latent[table[request].long()].flatten(0, 1)[:m, None]
        want = one_row(q[request, 0], keys, keys[..., :512], 0.05)
        torch.testing.assert_close(o[request, 0].float(), want, atol=2e-2, rtol=2e-2)


def test_scales_of_nvfp4(cuda):
    k, slots = rows(cuda, 4, KV_HEADS, DIM), torch.arange(4, device=cuda)
    pools = tuple(torch.zeros(2, PAGE, KV_HEADS, DIM // 2, dtype=torch.uint8, device=cuda) for _ in range(2))
    sides = tuple(torch.zeros(2, PAGE, KV_HEADS, DIM // 16, device=cuda).to(torch.float8_e4m3fn) for _ in range(2))
    append = flashinfer.nvfp4_quantize_append_paged_kv_cache_with_slot_mapping
    good = torch.ones(1, device=cuda)
    for bad in (0.0, -1.0, math.nan):
        with pytest.raises(ValueError, match="positive finite global decode scale"):
            append(k, k, slots, pools, sides, torch.tensor([bad], device=cuda), good)
    append(k, k, slots, pools, sides, good, good)
    before = pools[0].clone()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        append(k, k, slots, pools, sides, good, good)
        with pytest.raises(ValueError, match="CUDA graph capture"):
            append(k, k, slots, pools, sides, 1.0, good)
    pools[0].zero_()
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(pools[0], before)
    good.zero_()
    with pytest.raises(ValueError, match="positive finite global decode scale"):
        append(k, k, slots, pools, sides, good, good)


@pytest.mark.parametrize("layout", ["NHD", "HND"])
def test_strides_of_nvfp4(device, layout):
    order = (PAGE, KV_HEADS) if layout == "NHD" else (KV_HEADS, PAGE)
    codes = torch.randint(256, (4, 2, *order, DIM // 2), device=device).byte()
    scales = (torch.rand(4, 2, *order, DIM // 16, device=device) + 0.5).to(torch.float8_e4m3fn).view(torch.uint8)
    both = torch.cat([codes, scales], -1)
    q, workspace = rows(device, 5, HEADS, DIM), torch.empty(16, dtype=torch.uint8, device=device)
    wrapper = flashinfer.BatchPrefillWithPagedKVCacheWrapper(workspace, layout)
    arrays = (ints(device, *numbers) for numbers in ((0, 3, 5), (0, 2, 4), (3, 1, 0, 2), (7, 16)))
    types = {"q_data_type": torch.bfloat16, "kv_data_type": torch.uint8}
    wrapper.plan(*arrays, HEADS, KV_HEADS, DIM, PAGE, causal=True, **types)
    want = wrapper.run(q, codes, kv_cache_sf=scales, k_scale=0.1)
    parts = both[..., : DIM // 2], both[..., DIM // 2 :]
    assert torch.equal(wrapper.run(q, parts[0], kv_cache_sf=parts[1], k_scale=0.1), want)
