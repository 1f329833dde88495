"""FlashAttention-4 (flash_attn.cute, CuTe DSL): its sm_90 forward, of equal lengths and of packed tokens.

Needs flash-attn-4 and quack-kernels, with nvidia-cutlass-dsl and apache-tvm-ffi.
"""

import torch

from cases import DT, indptr, kind, kv_dtype, lens, parse
import cute_aot
import masks
from reference import Check
import shared_tensors
from timing import DEV, ready


def fa4(case):
    """`fa4` for equal lengths, as (batch, tokens, heads, head_dim), and `fa4-varlen` for all, as packed tokens."""
    v, Q, K = parse(case["variant"]), lens(case["qo_lens"]), lens(case["kv_lens"])
    hq, hkv, d, dt = case["qo_heads"], case["kv_heads"], case["head_dim"], DT[case["dtype"]]
    if kind(case) != "plain" or case.get("kv_layout", "ragged") == "paged":
        yield "fa4", None, "timed over contiguous keys only"
        return
    if set(v) - {"causal", "soft_cap", "sliding_window"} or ("sliding_window" in v and "causal" not in v):
        yield "fa4", None, f"no option for {' + '.join(v)}"
        return
    if dt.itemsize != 2 or kv_dtype(case) != dt:
        yield "fa4", None, "f16 and bf16 only on sm_90"
        return
    cute_aot.activate()
    try:
        from flash_attn.cute import flash_attn_func, flash_attn_varlen_func
    except ImportError as e:
        yield "fa4", None, f"not installed: {str(e)[:120]}"
        return
    q = shared_tensors.rows("q", (sum(Q), hq, d), dt)
    k, vv = (shared_tensors.rows(name, (sum(K), hkv, d), dt) for name in "kv")
    seen = masks.intervals({part: v[part] for part in v if part in masks.MASKS}, Q, K)
    offsets = torch.tensor([0, *K]).cumsum(0).tolist()
    keys = lambda i: (k[offsets[i] : offsets[i + 1]], vv[offsets[i] : offsets[i + 1]])
    check = Check(case, q, keys, "causal" in v, seen)
    options = dict(causal="causal" in v)
    if "soft_cap" in v:
        options["softcap"] = v["soft_cap"]["cap"]
    if "sliding_window" in v:
        options["window_size"] = (int(v["sliding_window"]["window"]) - 1, 0)
    # both return (output, log-sum-exp)
    if len(set(Q)) == 1 and len(set(K)) == 1:
        batched = tuple(x.view(len(Q), -1, *x.shape[1:]) for x in (q, k, vv))
        run = lambda: flash_attn_func(*batched, **options)[0].view(sum(Q), hq, d)
        yield ready("fa4", lambda: None, run, batched, check)
    lengths = dict(
        cu_seqlens_q=indptr(Q).to(DEV), cu_seqlens_k=indptr(K).to(DEV), max_seqlen_q=max(Q), max_seqlen_k=max(K)
    )
    run = lambda: flash_attn_varlen_func(q, k, vv, **lengths, **options)[0]
    yield ready("fa4-varlen", lambda: None, run, (q, k, vv, lengths), check)
