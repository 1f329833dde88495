"""The flex_attention of cuDNN's frontend (1.32): CuTe DSL kernels of masks that are intervals of keys, no score_mod.

Needs nvidia-cudnn-frontend, nvidia-cutlass-dsl and apache-tvm-ffi. A mask is a table, [0, F0) and [F1, F2) and so on
for each query, of which `create_mask_plan` makes tiles on the device; it is timed as the plan is, outside the run.
"""

import torch

from cases import DT, indptr, kind, kv_dtype, lens, parse
import cute_aot
import masks
from reference import Check
import shared_tensors
from timing import DEV, ready

NAME = "cudnn-flex"


def mask_func(seen):
    """The table of intervals: (1, 1 or 3, queries)."""
    first, start, end = seen
    if not start.any():
        return end[None, None].int().contiguous().to(DEV)
    return torch.stack([first, start, end])[None].int().contiguous().to(DEV)


def cudnn_flex(case):
    """Equal lengths run as (batch, tokens, heads, head_dim), others as packed tokens with offsets."""
    v, Q, K = parse(case["variant"]), lens(case["qo_lens"]), lens(case["kv_lens"])
    hq, hkv, d, dt = case["qo_heads"], case["kv_heads"], case["head_dim"], DT[case["dtype"]]
    if kind(case) != "plain" or case.get("kv_layout", "ragged") == "paged":
        yield NAME, None, "contiguous keys only"
        return
    if set(v) - masks.MASKS:
        yield NAME, None, f"masks only, no {sorted(set(v) - masks.MASKS)}"
        return
    if dt.itemsize != 2 or kv_dtype(case) != dt:
        yield NAME, None, "f16 and bf16 only"
        return
    seen = masks.intervals(v, Q, K)
    if seen is None:
        yield NAME, None, "the mask is not of two intervals"
        return
    cute_aot.activate()
    try:
        from cudnn.flex_attention import create_mask_plan, flex_attn_func
    except ImportError as e:
        yield NAME, None, f"not installed: {str(e)[:120]}"
        return
    q = shared_tensors.rows("q", (sum(Q), hq, d), dt)
    k, vv = (shared_tensors.rows(name, (sum(K), hkv, d), dt) for name in "kv")
    offsets = torch.tensor([0, *K]).cumsum(0).tolist()
    keys = lambda i: (k[offsets[i] : offsets[i + 1]], vv[offsets[i] : offsets[i + 1]])
    check = Check(case, q, keys, "causal" in v, seen)
    lengths = {}
    args = (q, k, vv)
    if len(set(Q)) == 1 and len(set(K)) == 1:
        args = tuple(x.view(len(Q), -1, *x.shape[1:]) for x in args)
    else:
        lengths = dict(
            cu_seqlens_q=indptr(Q).to(DEV), cu_seqlens_k=indptr(K).to(DEV), max_seqlen_q=max(Q), max_seqlen_k=max(K)
        )
    table, made = mask_func(seen), {}

    def plan():
        made["plan"] = create_mask_plan(table, *args, **lengths, build_backward=False)

    def run():
        return flex_attn_func(*args, mask_plan=made["plan"]).view(sum(Q), hq, d)

    yield ready(NAME, plan, run, (args, table, lengths, made), check)
