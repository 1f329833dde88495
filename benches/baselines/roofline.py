"""Baselines on one GPU: ceilings, cuDNN / flash SDPA, FlexAttention, FlashInfer.

Usage: python3 roofline.py SECTION [SECTION ...]; JSON lines go to $OUT/roofline-<section>.jsonl.
Times are medians of CUDA-event timings with a cold L2 (a 256 MB buffer is overwritten between runs).
"""

import json, math, os, sys, time, traceback
import torch

OUT = os.environ.get("OUT", "/tmp")
dev = torch.device("cuda")
_flush = None
results = []


def flush():
    global _flush
    if _flush is None:
        _flush = torch.empty(256 * 1024 * 1024, dtype=torch.uint8, device=dev)
    _flush.zero_()


def bench(f, reps=15, warm=3, cold=True):
    for _ in range(warm):
        f()
    torch.cuda.synchronize()
    ts = []
    for _ in range(reps):
        if cold:
            flush()
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record()
        f()
        b.record()
        torch.cuda.synchronize()
        ts.append(a.elapsed_time(b))
    ts.sort()
    return ts[len(ts) // 2]


def emit(section, **kw):
    kw["section"] = section
    results.append(kw)
    line = json.dumps(kw)
    print(line, flush=True)
    with open(f"{OUT}/roofline-{section}.jsonl", "a") as fh:
        fh.write(line + "\n")


def guarded(section, name, fn):
    t = time.time()
    try:
        fn()
    except Exception as e:
        print(
            "FAIL",
            section,
            name,
            type(e).__name__,
            str(e)[:300].replace("\n", " "),
            f"{time.time()-t:.1f}s",
            flush=True,
        )
        if os.environ.get("TB"):
            traceback.print_exc()


def attn_flops(bs, hq, sq, skv, d, causal, window=None):
    f = 0
    if window is not None:
        pairs = sum(min(i + 1, window) for i in range(sq))
    elif causal:
        pairs = sq * (sq + 1) // 2
    else:
        pairs = sq * skv
    return 4.0 * bs * hq * pairs * d


def ceilings():
    a = torch.empty(4 << 30, dtype=torch.uint8, device=dev)
    b = torch.empty_like(a)
    ms = bench(lambda: b.copy_(a), cold=False)
    emit("ceil", what="copy", GBps=2 * a.numel() / ms / 1e6)
    r = torch.empty(1 << 30, dtype=torch.float32, device=dev).normal_()
    ms = bench(lambda: r.sum(), cold=False)
    emit("ceil", what="read_sum", GBps=r.numel() * 4 / ms / 1e6)
    del a, b, r
    for n in (8192,):
        x = torch.randn(n, n, device=dev, dtype=torch.bfloat16)
        y = torch.randn(n, n, device=dev, dtype=torch.bfloat16)
        ms = bench(lambda: x @ y, cold=False)
        emit("ceil", what=f"matmul_bf16_{n}", TFLOPS=2 * n**3 / ms / 1e9)


SHAPES = [(16, 1024), (4, 4096), (1, 16384)]


def sdpa():
    from torch.nn.attention import sdpa_kernel, SDPBackend
    import torch.nn.functional as F

    for d, hq in ((128, 16), (64, 32), (256, 8)):
        for causal in (False, True):
            for bs, s in SHAPES:
                q, k, v = (torch.randn(bs, hq, s, d, device=dev, dtype=torch.bfloat16) for _ in range(3))
                for nm, be in (("cudnn", SDPBackend.CUDNN_ATTENTION), ("flash2", SDPBackend.FLASH_ATTENTION)):

                    def go():
                        with sdpa_kernel(be):
                            ms = bench(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=causal))
                        emit(
                            "prefill",
                            baseline=nm,
                            variant="causal" if causal else "full",
                            d=d,
                            hq=hq,
                            hkv=hq,
                            bs=bs,
                            s=s,
                            ms=ms,
                            TFLOPS=attn_flops(bs, hq, s, s, d, causal) / ms / 1e9,
                        )

                    guarded("sdpa", nm, go)


def flex():
    from torch.nn.attention.flex_attention import flex_attention, create_block_mask

    cm = lambda b, h, qi, ki: qi >= ki
    W = 1024
    sw = lambda b, h, qi, ki: (qi >= ki) & (qi - ki < W)
    slopes = torch.exp2(-8.0 * (torch.arange(32, device=dev) + 1) / 32)
    mods = {
        "full": (None, None),
        "causal": (None, cm),
        "softcap": (lambda sc, b, h, qi, ki: 30.0 * torch.tanh(sc / 30.0), cm),
        "alibi": (lambda sc, b, h, qi, ki: sc + slopes[h] * (ki - qi), cm),
        "swa1024": (None, sw),
    }
    for name, (smod, mmod) in mods.items():
        for d, hq in ((128, 16),):
            for bs, s in SHAPES:

                def go():
                    torch._dynamo.reset()
                    f = torch.compile(flex_attention)
                    q, k, v = (torch.randn(bs, hq, s, d, device=dev, dtype=torch.bfloat16) for _ in range(3))
                    bm = create_block_mask(mmod, None, None, s, s, device=dev) if mmod else None
                    t = time.time()
                    f(q, k, v, score_mod=smod, block_mask=bm)
                    torch.cuda.synchronize()
                    comp = time.time() - t
                    ms = bench(lambda: f(q, k, v, score_mod=smod, block_mask=bm))
                    win = W if name == "swa1024" else None
                    emit(
                        "prefill",
                        baseline="flex",
                        variant=name,
                        d=d,
                        hq=hq,
                        hkv=hq,
                        bs=bs,
                        s=s,
                        ms=ms,
                        compile_s=round(comp, 2),
                        TFLOPS=attn_flops(bs, hq, s, s, d, name != "full", win) / ms / 1e9,
                    )

                guarded("flex", name, go)


def fi_decode():
    import flashinfer

    print("flashinfer", flashinfer.__version__)
    import numpy as np

    ws = torch.empty(256 << 20, dtype=torch.uint8, device=dev)
    rng = np.random.default_rng(0)

    def lens(kind, bs, avg):
        if kind == "const":
            return np.full(bs, avg)
        if kind == "uniform":
            return rng.integers(avg // 2, avg + 1, bs)
        z = rng.zipf(1.5, bs).clip(1, 1000).astype(float)  # skewed
        return np.maximum(16, (z / z.mean() * avg)).astype(int)

    cases = []
    for hq, hkv in ((32, 32), (32, 8), (64, 8)):
        for kind, bs, avg in (
            ("const", 16, 1024),
            ("uniform", 16, 1024),
            ("skew", 16, 1024),
            ("const", 64, 4096),
            ("skew", 64, 4096),
            ("const", 1, 32768),
            ("const", 128, 1024),
        ):
            cases.append((hq, hkv, kind, bs, avg))
    for kvd in (torch.bfloat16, torch.float8_e4m3fn):
        for hq, hkv, kind, bs, avg in cases:
            for tc in (False, True):

                def go():
                    d, ps = 128, 16
                    L = lens(kind, bs, avg)
                    np_ = (L + ps - 1) // ps
                    indptr = torch.tensor(np.concatenate([[0], np.cumsum(np_)]), dtype=torch.int32)
                    tot = int(indptr[-1])
                    kv = torch.randn(tot, 2, ps, hkv, d, device=dev, dtype=torch.bfloat16).to(kvd)
                    idx = torch.randperm(tot, dtype=torch.int32).to(dev)
                    last = torch.tensor((L - 1) % ps + 1, dtype=torch.int32)
                    q = torch.randn(bs, hq, d, device=dev, dtype=torch.bfloat16)
                    w = flashinfer.BatchDecodeWithPagedKVCacheWrapper(ws, "NHD", use_tensor_cores=tc)
                    t = time.time()
                    w.plan(indptr, idx, last, hq, hkv, d, ps, q_data_type=torch.bfloat16, kv_data_type=kvd)
                    w.run(q, kv)
                    torch.cuda.synchronize()
                    comp = time.time() - t
                    t = time.time()
                    for _ in range(5):
                        w.plan(indptr, idx, last, hq, hkv, d, ps, q_data_type=torch.bfloat16, kv_data_type=kvd)
                    torch.cuda.synchronize()
                    plan_us = (time.time() - t) / 5 * 1e6
                    g = torch.cuda.CUDAGraph()
                    with torch.cuda.graph(g):
                        w.run(q, kv)
                    ms = bench(lambda: g.replay())
                    byts = int(L.sum()) * 2 * hkv * d * kv.element_size()
                    emit(
                        "decode",
                        baseline="flashinfer-" + ("tc" if tc else "cc"),
                        hq=hq,
                        hkv=hkv,
                        kind=kind,
                        bs=bs,
                        avg=avg,
                        kv=str(kvd)[6:],
                        ms=ms,
                        first_s=round(comp, 2),
                        plan_us=round(plan_us, 1),
                        GBps=byts / ms / 1e6,
                        sumL=int(L.sum()),
                    )

                guarded("fi_decode", f"{hq}/{hkv} {kind} {bs} {avg} {kvd} tc={tc}", go)


def fi_prefill(backends=("fa3", "fa2")):
    import flashinfer

    ws = torch.empty(512 << 20, dtype=torch.uint8, device=dev)
    for name in ("causal", "full", "softcap", "swa1024", "alibi", "rope"):
        for be in backends:
            if be == "fa3" and name in ("alibi", "rope"):
                continue
            for d, hq, hkv in ((128, 16, 16), (128, 32, 8)):
                for bs, s in SHAPES:

                    def go():
                        q = torch.randn(bs * s, hq, d, device=dev, dtype=torch.bfloat16)
                        k = torch.randn(bs * s, hkv, d, device=dev, dtype=torch.bfloat16)
                        v = torch.randn_like(k)
                        ip = torch.arange(0, bs + 1, dtype=torch.int32) * s
                        w = flashinfer.BatchPrefillWithRaggedKVCacheWrapper(ws, "NHD", backend=be)
                        kw = dict(causal=name != "full", q_data_type=torch.bfloat16)
                        if name == "softcap":
                            kw["logits_soft_cap"] = 30.0
                        if name == "swa1024":
                            kw["window_left"] = 1023
                        if name == "alibi":
                            kw["pos_encoding_mode"] = "ALIBI"
                        if name == "rope":
                            kw["pos_encoding_mode"] = "ROPE_LLAMA"
                        t = time.time()
                        w.plan(ip.to(dev), ip.to(dev), hq, hkv, d, **kw)
                        w.run(q, k, v)
                        torch.cuda.synchronize()
                        comp = time.time() - t
                        ms = bench(lambda: w.run(q, k, v))
                        emit(
                            "prefill",
                            baseline="flashinfer-" + be,
                            variant=name,
                            d=d,
                            hq=hq,
                            hkv=hkv,
                            bs=bs,
                            s=s,
                            ms=ms,
                            first_s=round(comp, 2),
                            TFLOPS=attn_flops(bs, hq, s, s, d, name != "full", 1024 if name == "swa1024" else None)
                            / ms
                            / 1e9,
                        )

                    guarded("fi_prefill", f"{name} {be} {hq}/{hkv} {bs}x{s}", go)


def fi_misc():
    import flashinfer

    for bs in (1, 64, 512):
        probs = torch.softmax(torch.randn(bs, 128256, device=dev) * 3, -1)
        for nm, f in (
            ("top_p", lambda: flashinfer.sampling.top_p_sampling_from_probs(probs, 0.9)),
            ("top_k_top_p", lambda: flashinfer.sampling.top_k_top_p_sampling_from_probs(probs, 50, 0.9)),
            ("min_p", lambda: flashinfer.sampling.min_p_sampling_from_probs(probs, 0.05)),
        ):

            def go():
                ms = bench(f)
                emit("sampling", baseline="flashinfer", op=nm, bs=bs, vocab=128256, ms=ms)

            guarded("sampling", nm, go)

        def sorted_torch():
            p, i = torch.sort(probs, -1, descending=True)
            c = p.cumsum(-1)
            p[(c - p) > 0.9] = 0
            return i.gather(-1, torch.multinomial(p, 1))

        guarded(
            "sampling",
            "torch",
            lambda: emit("sampling", baseline="torch_sort", op="top_p", bs=bs, vocab=128256, ms=bench(sorted_torch)),
        )


if __name__ == "__main__":
    print(torch.__version__, torch.cuda.get_device_name(), flush=True)
    for s in sys.argv[1:]:
        t = time.time()
        try:
            globals()[s]()
        except Exception:
            traceback.print_exc()
        print(f"section {s} took {time.time()-t:.1f}s", flush=True)
