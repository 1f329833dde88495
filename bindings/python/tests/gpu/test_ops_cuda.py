"""Ops, sampling and indexers of torch's tensors on a GPU, against the same calls on the CPU."""

import numpy as np
import pytest

import attn_rs
from attn_rs import indexer, ops, sampling

torch = pytest.importorskip("torch")


def both(call, given, changed=(), device="cuda", **tolerance):
    """Compares what a call returns, and the arguments that it changes, on the device with the CPU."""
    results = []
    for where in ("cpu", device):
        own = {name: x.to(where, copy=True) if torch.is_tensor(x) else x for name, x in given.items()}
        out = call(**own)
        out = out if isinstance(out, tuple) else (out,)
        results.append([*out, *(own[name] for name in changed)])
    for x, y in zip(*results, strict=True):
        assert (x is None) == (y is None)
        if x is not None:
            assert y.device.type == torch.device(device).type
            torch.testing.assert_close(y.cpu(), x, equal_nan=True, **tolerance)


def ends(*lens):
    return torch.tensor([0, *lens]).cumsum(0).int()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_merges(device, dtype):
    near = {"atol": 2e-2, "rtol": 2e-2} if dtype == torch.bfloat16 else {"atol": 1e-5, "rtol": 1e-5}
    o, lse = torch.randn(5, 3, 4, 64).to(dtype), torch.randn(5, 3, 4)
    lse[1, 1] = -torch.inf
    two = {"a": o[:, 0], "lse_a": lse[:, 0], "b": o[:, 1], "lse_b": lse[:, 1]}
    both(ops.merge_state, two, device=device, **near)
    mask = torch.tensor([True, False, True, True, False])
    both(ops.merge_state_in_place, {**two, "mask": mask}, ("a", "lse_a"), device, **near)
    both(ops.merge_states, {"o": o, "lse": lse}, device=device, **near)
    both(ops.merge_sums, {"a": o[:, 0], "b": o[:, 1]}, device=device, **near)
    for convert in (ops.lse_to_base_2, ops.lse_from_base_2):
        both(convert, {"lse": lse[:, 0].contiguous()}, ("lse",), device)


@pytest.mark.parametrize("layout", ["NHD", "HND", "fused NHD", "latent"])
def test_pages(device, layout):
    shape = {"NHD": (9, 16, 2, 64), "HND": (9, 2, 16, 64), "fused NHD": (9, 2, 16, 2, 64), "latent": (9, 16, 1, 64)}
    k = torch.randn(shape[layout]).bfloat16()
    v = torch.randn(shape[layout]).bfloat16() if layout in ("NHD", "HND") else None
    pools = {"k_pool": k, "v_pool": v, "kv_layout": layout}
    pairs = torch.tensor([[1, 4], [8, 0]], dtype=torch.int32)
    for given in (pairs, pairs.numpy()):  # on the device, and on the host
        both(ops.copy_pages, {**pools, "pairs": given}, ("k_pool",), device)
    to = {"to_k": torch.zeros_like(k), "to_v": None if v is None else torch.zeros_like(v)}
    between = {"from_k": k, "from_v": v, "from_layout": layout, "to_layout": layout, **to, "pairs": pairs}
    both(ops.copy_pages_between, between, ("to_k",), device)
    table = torch.tensor([[3, 7, 2], [5, 0, 0]], dtype=torch.int32)
    gather = {**pools, "kv_indptr": ends(40, 9), "block_table": table, "tokens": 49}
    both(ops.gather, gather, device=device)
    both(ops.gather, {**gather, "dtype": torch.float32, "k_scale": 0.5}, device=device)
    rows = {"page_indptr": ends(3, 1), "page_indices": torch.tensor([3, 7, 2, 5], dtype=torch.int32)}
    both(ops.gather, {**gather, "block_table": None, **rows}, device=device)


def test_what_kernels_skip_is_counted(cuda):
    k, v = torch.randn(4, 16, 2, 64, device=cuda), torch.randn(4, 16, 2, 64, device=cuda)
    before = k.clone()
    status = torch.zeros(1, dtype=torch.int32, device=cuda)
    ops.copy_pages(k, v, torch.tensor([[0, 9], [1, 2]], dtype=torch.int32, device=cuda), status=status)
    before[2] = before[1]
    assert torch.equal(k, before)
    assert status.item() == 1
    with pytest.raises(attn_rs.AttnError, match=r"to\[0\]` is 9"):
        ops.copy_pages(k, v, np.int32([[0, 9]]))


def test_pages_are_swapped(cuda):
    k, v = torch.randn(6, 16, 2, 64, device=cuda), torch.randn(6, 16, 2, 64, device=cuda)
    host = [torch.zeros(3, 16, 2, 64, pin_memory=True) for _ in range(2)]
    ops.swap_out(k, v, *host, np.int32([[5, 0], [1, 2]]))
    torch.cuda.synchronize()
    for x, y in zip((k, v), host):
        assert torch.equal(x[[5, 1]].cpu(), y[[0, 2]])
        assert not y[1].any()
    saved = [x.clone() for x in (k, v)]
    k.zero_()
    v.zero_()
    ops.swap_in(*host, k, v, torch.tensor([[0, 5], [2, 1]], dtype=torch.int32, device=cuda))
    for x, y in zip((k, v), saved):
        assert torch.equal(x[[5, 1]], y[[5, 1]])
        assert not x[0].any()
    with pytest.raises(attn_rs.InvalidTensor, match="host_k is in memory of the host that is not pinned"):
        ops.swap_out(k, v, torch.zeros(3, 16, 2, 64), torch.zeros(3, 16, 2, 64), np.int32([[5, 0]]))


def test_conversions_and_bits(device):
    k, v = torch.randn(3, 2, 8, 16, 8).half(), torch.randn(3, 2, 64, 16).half()
    both(ops.x_packed_to_pages, {"k": k, "v": v}, device=device)
    pools = dict(zip(("k_pool", "v_pool"), ops.x_packed_to_pages(k, v)))
    both(ops.pages_to_x_packed, pools, device=device)
    bools = torch.rand(1001) < 0.5
    for order in ("little", "big"):
        both(ops.packbits, {"bools": bools, "bitorder": order}, device=device)
        both(ops.segment_packbits, {"bools": bools, "indptr": ends(13, 0, 988), "bitorder": order}, device=device)


FILTERS = [
    {},
    {"top_k": 40, "top_p": 0.9, "min_p": 0.01, "temperature": 0.7},
    {"top_p": torch.tensor([0.3, 0.9, 1.0, 0.5]), "top_k": torch.tensor([1, 0, 50, 9], dtype=torch.int32)},
    {"temperature": torch.tensor([0.0, 1.0, 2.0, 0.5]), "order": "joint", "top_k": 100, "top_p": 0.8},
]


@pytest.mark.parametrize("filters", FILTERS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_sampling_has_the_same_bits(device, filters, dtype):
    logits, same = 3 * torch.randn(4, 5003).to(dtype), {"atol": 0, "rtol": 0}
    given = {"logits": logits, "positions": torch.arange(4), "seeds": torch.tensor([3, 1 << 40, -1, 0]), **filters}
    both(lambda **how: sampling.sample(**how).ids, given, ("positions",), device, **same)
    counts = torch.zeros(4, 5003, dtype=torch.int32)
    counts[:, :99] = 1
    penalties = {"counts": counts, "repetition": 1.3, "presence": 0.2, "frequency": 0.1}
    both(lambda **how: sampling.sample(**how).ids, {**given, **penalties}, ("positions", "counts"), device, **same)
    more = {"return_log_probs": True, "return_probs": True, "top": 20}
    both(sampling.sample, {**given, **more}, ("positions",), device, atol=1e-5, rtol=1e-5)
    both(sampling.softmax, {"logits": logits, **filters}, device=device, atol=1e-6, rtol=1e-5)
    both(sampling.mask_logits, {"logits": logits, **filters}, device=device, **same)
    of_probs = {name: value for name, value in filters.items() if name != "temperature"}
    probs = {"probs": logits.float().softmax(1), **of_probs}
    both(sampling.renorm_probs, probs, device=device, atol=1e-6, rtol=1e-5)
    both(lambda **how: sampling.sample_probs(**how).ids, {**probs, "positions": torch.arange(4)}, (), device, **same)


def test_verification_has_the_same_bits(device):
    requests, drafts, vocab, same = 8, 4, 1003, {"atol": 0, "rtol": 0}
    probs = torch.randn(requests, 2 * drafts + 1, vocab).softmax(2)
    ids = torch.randint(vocab, (requests, drafts), dtype=torch.int32)
    ids[0, 2:] = -1
    chain = {
        "draft_probs": probs[:, :drafts],
        "draft_ids": ids,
        "target_probs": probs[:, drafts:],
        "positions": torch.arange(requests),
        "seeds": torch.arange(requests),
    }
    both(sampling.verify_chain, chain, ("positions",), device, **same)
    of_nodes = lambda *of: torch.tensor([of] * requests, dtype=torch.int32)  # noqa: E731
    tree = {
        "draft_ids": torch.randint(4, (requests, 4), dtype=torch.int32),
        "retrieve_index": torch.arange(4 * requests, dtype=torch.int32).reshape(requests, 4),
        "retrieve_next_token": of_nodes(1, -1, 3, -1),
        "retrieve_next_sibling": of_nodes(-1, 2, -1, -1),
        "target_probs": torch.randn(requests, 4, 5).softmax(2),
        "positions": torch.arange(requests),
        "seeds": 17,
    }
    both(sampling.verify_tree, tree, ("positions",), device, **same)


def test_a_graph_draws_anew(cuda):
    logits, positions = torch.randn(16, 997, device=cuda), torch.zeros(16, dtype=torch.int64, device=cuda)
    temperature, out = torch.ones(16, device=cuda), torch.zeros(16, dtype=torch.int32, device=cuda)
    seeds = torch.arange(16, device=cuda)
    sampling.prepare(torch.float32, device=cuda)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        sampling.sample(logits, positions, seeds=seeds, temperature=temperature, out=out)
    drawn = []
    for step in range(4):
        graph.replay()
        drawn.append(out.cpu())
        assert (positions == step + 1).all()
    assert any((drawn[0] != other).any() for other in drawn[1:])
    temperature.zero_()
    graph.replay()
    assert torch.equal(out.long(), logits.argmax(1))


def test_indexers(device):
    near = {"atol": 1e-3, "rtol": 1e-3}
    q, weights, keys = torch.randn(9, 4, 64).half(), torch.randn(9, 4), torch.randn(300, 64).half()
    indptr = {"qo_indptr": ends(4, 5), "kv_indptr": ends(100, 200)}
    for visible in ("causal", "all", torch.arange(9, dtype=torch.int32) * 11):
        scores = {"scores": torch.zeros(9, 300)}
        both(
            indexer.index_scores,
            {"q": q, "weights": weights, "keys": keys, "visible": visible, **indptr, **scores},
            device=device,
            **near,
        )
        blocks = {"scores": torch.zeros(9, 4, 10), "block_size": 32}
        both(
            indexer.block_scores, {"q": q, "keys": keys, "visible": visible, **indptr, **blocks}, device=device, **near
        )
    table = torch.randperm(20)[:14].reshape(2, 7).int()
    paged = {
        "keys": torch.randn(20, 32, 64).half(),
        "block_table": table,
        "kv_lens": torch.tensor([100, 200], dtype=torch.int32),
    }
    scores = {"scores": torch.zeros(9, 224), "qo_indptr": ends(4, 5)}
    both(indexer.index_scores, {"q": q, "weights": weights, **paged, **scores}, device=device, **near)
    scores, counts = torch.randn(9, 224), torch.randint(224, (9,), dtype=torch.int32)
    both(indexer.select_tokens, {"scores": scores, "counts": counts, "k": 64}, device=device, atol=0, rtol=0)
    pages = {"scores": torch.randn(9, 4, 50), "counts": counts.clamp(max=50), "k": 16, "first": 1, "last": 2}
    both(indexer.select_pages, pages, device=device, atol=0, rtol=0)


@pytest.mark.parametrize("types", [("bfloat16", "float8_e4m3fn", "float8_e4m3fn"), ("float16", "float16", "float16")])
@pytest.mark.parametrize("by_table", [False, True])
def test_rotations_beside_appends(device, types, by_table):
    of, of_pool, of_out = (getattr(torch, name) for name in types)
    q, k, v = (torch.randn(7, heads, 64).to(of) for heads in (8, 2, 2))
    pools = {name: torch.zeros(4, 16, 2, 64).to(of_pool) for name in ("k_pool", "v_pool")}
    slots, positions = torch.tensor([3, -1, 40, 41, 8, 63, 0]), torch.arange(7).int() * 5
    angle = torch.arange(40)[:, None] * 1e4 ** (-torch.arange(32) / 32)
    part = {"cos_sin": torch.cat([angle.cos(), angle.sin()], -1)} if by_table else {"expression": "rope"}
    given = {"q": q, "k": k, "v": v, **pools, "slots": slots, "positions": positions, "q_scale": 0.5, **part}
    near = {"atol": 0.2, "rtol": 0.13} if of_out == torch.float8_e4m3fn else {"atol": 2e-3, "rtol": 2e-3}

    def call(**given):
        out = ops.rotate_append(**given, q_out=torch.zeros_like(given["q"]).to(of_out))
        return out.float(), given["k_pool"].float(), given["v_pool"].float()

    both(call, given, device=device, **near)


@pytest.mark.parametrize("lens", [(1, 1), (70, 33)])
def test_types_of_queries_and_outputs(device, lens):
    e4m3 = torch.float8_e4m3fn
    q, kv = (torch.randn(sum(lens), 8, 64) * 8).to(e4m3), torch.randn(2, 200, 2, 64).bfloat16()
    batch = attn_rs.Batch.ragged([0, lens[0], sum(lens)], [0, 80, 200])
    of = {"qo_heads": 8, "kv_heads": 2, "head_dim": 64, "dtype": "bfloat16", "q_dtype": e4m3, "o_dtype": e4m3}

    def call(q, k, v, q_scale, o_scale):
        plan = attn_rs.Plan(batch, "causal", device=str(q.device), **of)
        return plan.run(q, k, v, q_scale=q_scale, o_scale=o_scale).float() * 0.25

    near = {"atol": 4e-3, "rtol": 0.13}
    for q_scale, o_scale in ((0.125, 0.25), (torch.tensor([0.125]), torch.tensor([0.25]))):
        given = {"q": q, "k": kv[0], "v": kv[1], "q_scale": q_scale, "o_scale": o_scale}
        both(call, given, device=device, **near)
