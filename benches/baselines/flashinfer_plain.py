"""FlashInfer's prefill (fa2, fa3) and decode (CUDA cores, tensor cores) wrappers."""

import time
import torch

from cases import DT, indptr, kv_dtype, lens, parse
import shared_tensors
import timing
from timing import DEV, Runner


def plain(case):
    """Prefill or decode of a ragged or paged case. A paged prefill with the run mode `ragged` is timed ragged too."""
    yield from wrappers(case, "")
    if "ragged" in case.get("ours_also", []) and case.get("kv_layout") == "paged":
        yield from wrappers({**case, "kv_layout": "ragged"}, "-ragged")


def fp8_attention(case, q, k, v, qi, ki):
    """FlashInfer's fa3 in e4m3, of an equal number of heads: a scale for each head."""
    import flashinfer as fi

    heads, e4m3 = case["qo_heads"], torch.float8_e4m3fn
    s_q = (q.float().abs().amax(dim=(0, 2)) / 448).contiguous()
    one = torch.ones(case["kv_heads"], device=DEV, dtype=torch.float32)
    q8 = (q.float() / s_q[None, :, None]).to(e4m3)
    ws = torch.empty(512 << 20, dtype=torch.uint8, device=DEV)
    w = fi.BatchPrefillWithRaggedKVCacheWrapper(ws, "NHD", backend="fa3")
    types = dict(q_data_type=e4m3, kv_data_type=e4m3, o_data_type=q.dtype)
    causal = "causal" in parse(case["variant"])
    w.plan(qi.to(DEV), ki.to(DEV), heads, case["kv_heads"], case["head_dim"], causal=causal, **types)
    run = lambda: w.run(q8, k, v, s_q, one, one)
    run()
    torch.cuda.synchronize()
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        o = run()
    return Runner(g.replay, False, (ws, w, q8, k, v, s_q, one), "flashinfer-fa3-e4m3", o)


def wrappers(case, suffix):
    import flashinfer as fi

    v = parse(case["variant"])
    unknown = set(v) - {"causal", "soft_cap", "sliding_window", "alibi", "rope"}
    if unknown:
        yield "flashinfer", None, f"no built-in for {sorted(unknown)}"
        return
    Q, K = lens(case["qo_lens"]), lens(case["kv_lens"])
    hq, hkv, d, ps = case["qo_heads"], case["kv_heads"], case["head_dim"], case.get("page_size", 16)
    dt, kdt, order = DT[case["dtype"]], kv_dtype(case), case.get("page_order", "NHD")
    q, qi = shared_tensors.rows("q", (sum(Q), hq, d), dt), indptr(Q)
    kw = dict(q_data_type=dt, kv_data_type=kdt)
    if "soft_cap" in v:
        kw["logits_soft_cap"] = v["soft_cap"]["cap"]
    if "sliding_window" in v:
        kw["window_left"] = int(v["sliding_window"]["window"]) - 1
    if "alibi" in v:
        kw["pos_encoding_mode"] = "ALIBI"
    if "rope" in v:
        kw["pos_encoding_mode"] = "ROPE_LLAMA"
    paged = case.get("kv_layout", "ragged") == "paged"
    if paged:
        npg = [(k + ps - 1) // ps for k in K]
        ki, tot = indptr(npg), sum(npg)
        idx = torch.randperm(tot, generator=torch.Generator().manual_seed(case.get("seed", 0)), dtype=torch.int32).to(
            DEV
        )
        last = torch.tensor([(k - 1) % ps + 1 for k in K], dtype=torch.int32)
        kv = torch.randn(
            (tot, 2, ps, hkv, d) if order == "NHD" else (tot, 2, hkv, ps, d), device=DEV, dtype=torch.bfloat16
        ).to(kdt)
        shared_tensors.fill(kv, order, [(idx[a:b], n) for a, b, n in zip(ki.tolist(), ki.tolist()[1:], K)])
    else:
        ki = indptr(K)
        k_, v_ = (shared_tensors.rows(name, (sum(K), hkv, d), kdt) for name in "kv")
    if not paged and kdt == torch.float8_e4m3fn and "flashinfer-fa3-e4m3" not in timing.without:
        try:
            yield "flashinfer-fa3-e4m3", fp8_attention(case, q, k_, v_, qi, ki), {}
        except Exception as e:
            yield "flashinfer-fa3-e4m3", None, f"{type(e).__name__}: {str(e)[:160]}"
    for baseline, m in (
        [("flashinfer-cc", False), ("flashinfer-tc", True)]
        if paged and set(Q) == {1}
        else [("flashinfer-fa3", "fa3"), ("flashinfer-fa2", "fa2")]
    ):
        baseline += suffix
        if baseline in timing.without:
            continue
        if m == "fa3" and {"alibi", "rope"} & set(v):
            yield baseline, None, "fa3 accepts the option and silently ignores it"
            continue
        try:
            ws = torch.empty(512 << 20, dtype=torch.uint8, device=DEV)
            t = time.time()
            if isinstance(m, bool):
                w = fi.BatchDecodeWithPagedKVCacheWrapper(ws, order, use_tensor_cores=m)
                plan = lambda w=w: w.plan(ki, idx, last, hq, hkv, d, ps, **kw)
                run = lambda w=w: w.run(q, kv)
            elif paged:
                w = fi.BatchPrefillWithPagedKVCacheWrapper(ws, order, backend=m)
                plan = lambda w=w: w.plan(
                    qi.to(DEV), ki.to(DEV), idx, last.to(DEV), hq, hkv, d, ps, causal="causal" in v, **kw
                )
                run = lambda w=w: w.run(q, kv)
            else:
                w = fi.BatchPrefillWithRaggedKVCacheWrapper(ws, "NHD", backend=m)
                plan = lambda w=w: w.plan(qi.to(DEV), ki.to(DEV), hq, hkv, d, causal="causal" in v, **kw)
                run = lambda w=w: w.run(q, k_, v_)
            plan()
            run()
            torch.cuda.synchronize()
            first = time.time() - t
            t = time.time()
            for _ in range(10):
                plan()
            torch.cuda.synchronize()
            plan_us = (time.time() - t) * 1e5
            g = torch.cuda.CUDAGraph()
            with torch.cuda.graph(g):
                o = run()
            alive = (ws, w, (q, kv, idx) if paged else (q, k_, v_))
            yield baseline, Runner(g.replay, False, alive, baseline, o), {
                "first_s": round(first, 2),
                "plan_us": round(plan_us, 1),
            }
        except Exception as e:
            yield baseline, None, f"{type(e).__name__}: {str(e)[:160]}"
