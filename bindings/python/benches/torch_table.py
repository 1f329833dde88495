"""Prefill and decode beside SDPA and FlexAttention of torch, the first call included.

    python benches/torch_table.py [--device cuda] [--small]

Each row is a problem: the seconds of the first call, with what it compiles, and the microseconds of a later one, by
events of the device over 20 calls after 5, the median of 5 rounds in turns. Kernels of attn_rs are compiled anew in a
cache of its own. Every output is compared with that of SDPA, or of FlexAttention where SDPA has no such variant.
"""

import argparse
import os
import statistics
import tempfile
import time

import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import attn_rs

HEADS, KV_HEADS, DIM = 32, 8, 128


def problems(small):
    """(name, requests, queries, keys, variant)."""
    n, many = (256, 2) if small else (8192, 64)
    decode = 256 if small else 4096
    return [
        (f"prefill, 1 x {n}", 1, n, n, "causal"),
        (f"prefill, 1 x {n}, window of {n // 8}", 1, n, n, f"causal + sliding_window(window={n // 8})"),
        (f"prefill, 1 x {n}, soft cap", 1, n, n, "causal + soft_cap(cap=30)"),
        (f"prefill, 8 x {n // 8}", 8, n // 8, n // 8, "causal"),
        (f"decode, {many} x {decode}", many, 1, decode, "causal"),
        (
            f"decode, {many} x {decode}, window of {decode // 4}",
            many,
            1,
            decode,
            f"causal + sliding_window(window={decode // 4})",
        ),
        (f"decode, 1 x {decode * 4}", 1, 1, decode * 4, "causal"),
    ]


def flex(queries, keys, variant, device):
    """The same variant as FlexAttention has it, compiled."""
    offset = keys - queries
    window = int(variant.partition("window=")[2].rstrip(")") or 0)

    def mask_mod(batch, head, qo, kv):
        seen = kv <= qo + offset
        return seen & (qo + offset - kv < window) if window else seen

    score_mod = (lambda score, batch, head, qo, kv: 30 * torch.tanh(score / 30)) if "soft_cap" in variant else None
    needs_mask = queries > 1 or window
    mask = create_block_mask(mask_mod, None, None, queries, keys, device=device) if needs_mask else None
    # a try on a CPU needs no compiler
    compiled = torch.compile(flex_attention, dynamic=False, backend="eager" if device == "cpu" else "inductor")
    return lambda q, k, v: compiled(q, k, v, score_mod=score_mod, block_mask=mask, enable_gqa=True)


def sdpa(queries, keys, variant, device):
    """The same variant as SDPA has it; None where it has none."""
    of = torch.nn.functional.scaled_dot_product_attention
    if "soft_cap" in variant:
        return None
    if "window" not in variant:
        return lambda q, k, v: of(q, k, v, is_causal=queries > 1, enable_gqa=True)
    window = int(variant.partition("window=")[2].rstrip(")"))
    qo, kv = torch.arange(queries, device=device)[:, None] + keys - queries, torch.arange(keys, device=device)[None]
    mask = (kv <= qo) & (qo - kv < window)
    return lambda q, k, v: of(q, k, v, attn_mask=mask, enable_gqa=True)


def planned(requests, queries, keys, variant, device):
    """A plan over the same memory: a request's keys are one page."""
    ends = [i * queries for i in range(requests + 1)]
    how = {"qo_heads": HEADS, "kv_heads": KV_HEADS, "head_dim": DIM, "dtype": dtype_of(device), "device": device}
    plan = attn_rs.Plan(attn_rs.Batch.ragged(ends, [i * keys for i in range(requests + 1)]), variant, **how)

    def run(q, k, v):
        # tokens first, as a model's projections give them
        of = (x.transpose(1, 2).reshape(-1, x.shape[1], DIM) for x in (q, k, v))
        return plan.run(*of).reshape(requests, queries, HEADS, DIM).transpose(1, 2)

    return run


def dtype_of(device):
    """FlexAttention has no bfloat16 on every CPU."""
    return torch.float32 if device == "cpu" else torch.bfloat16


def wait(device):
    if device != "cpu":
        torch.cuda.synchronize()


def micros(run, given, device, calls=20):
    for _ in range(5):
        run(*given)
    wait(device)
    if device == "cpu":
        start = time.perf_counter()
        for _ in range(calls):
            run(*given)
        return (time.perf_counter() - start) / calls * 1e6
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(calls):
        run(*given)
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / calls * 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--small", action="store_true", help="sizes for a CPU")
    args = parser.parse_args()
    os.environ["ATTN_CACHE_DIR"] = tempfile.mkdtemp()
    torch.set_grad_enabled(False)
    torch.manual_seed(0)
    of = f"{dtype_of(args.device)}, {HEADS}/{KV_HEADS} heads of {DIM}"
    print(f"{attn_rs.describe(args.device)}, torch {torch.__version__}, {of}\n")
    print("| problem | first call: attn_rs | FlexAttention | SDPA | later, us: attn_rs | FlexAttention | SDPA |")
    print("|---|---|---|---|---|---|---|")
    for name, requests, queries, keys, variant in problems(args.small):
        # memory of (batch, tokens, heads, dim), seen as (batch, heads, tokens, dim)
        given = [
            torch.randn(requests, n, h, DIM, device=args.device, dtype=dtype_of(args.device)).transpose(1, 2)
            for n, h in ((queries, HEADS), (keys, KV_HEADS), (keys, KV_HEADS))
        ]
        makers = {
            "attn_rs": lambda: planned(requests, queries, keys, variant, args.device),  # noqa: B023
            "FlexAttention": lambda: flex(queries, keys, variant, args.device),  # noqa: B023
            "SDPA": lambda: sdpa(queries, keys, variant, args.device),  # noqa: B023
        }
        firsts, runs, outputs = {}, {}, {}
        for who, make in makers.items():
            torch.compiler.reset()
            wait(args.device)
            start = time.perf_counter()
            run = make()
            if run is None:
                continue
            outputs[who] = run(*given)
            wait(args.device)
            firsts[who], runs[who] = time.perf_counter() - start, run
        want = outputs.get("SDPA", outputs["FlexAttention"]).float()
        for who, got in outputs.items():
            worst = (got.float() - want).abs().max().item()
            assert worst < 3e-2, f"{name}: {who} differs by {worst}"
        rounds = {who: [] for who in runs}
        for _ in range(5):
            for who, run in runs.items():
                rounds[who].append(micros(run, given, args.device))
        of = [f"{firsts[who]:.2f} s" if who in firsts else "-" for who in makers]
        of += [f"{statistics.median(rounds[who]):.1f}" if who in rounds else "-" for who in makers]
        print(f"| {name} | {' | '.join(of)} |", flush=True)


if __name__ == "__main__":
    main()
