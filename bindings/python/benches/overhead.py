"""What a call from Python costs beside the same call from Rust: the host's time of launches that nobody waits for.

    python benches/overhead.py [--calls 10000] [--device cuda]

Prints a line of JSON: medians in microseconds of a decode of 8 requests of 128 keys.
"""

import argparse
import json
import statistics
import time

import torch

import attn_rs


def times(calls, run, device):
    """The time of each call, with the queue of launches emptied now and then, outside of the time."""
    of = []
    for i in range(calls):
        if i % 200 == 0 and device != "cpu":
            torch.cuda.synchronize()
        start = time.perf_counter_ns()
        run()
        of.append(time.perf_counter_ns() - start)
    return of


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()
    torch.set_grad_enabled(False)
    requests, keys, page_size = 8, 128, 16
    per_request = keys // page_size
    num_pages = requests * per_request
    how = {"qo_heads": 32, "kv_heads": 8, "head_dim": 128, "dtype": torch.bfloat16, "device": args.device}
    q = torch.randn(requests, 32, 128, device=args.device).bfloat16()
    k, v = (torch.randn(num_pages, page_size, 8, 128, device=args.device).bfloat16() for _ in range(2))
    table = torch.arange(num_pages).reshape(requests, per_request)
    ends = list(range(requests + 1))
    batch = attn_rs.Batch.block_table(ends, table, [keys] * requests, page_size=page_size, num_pages=num_pages)
    plan = attn_rs.Plan(batch, "causal", **how)
    out = torch.empty_like(q)
    dense = [
        torch.randn(requests, n, h, 128, device=args.device).bfloat16() for n, h in ((1, 32), (keys, 8), (keys, 8))
    ]
    runs = {
        "plan.run, out given": lambda: plan.run(q, k, v, out=out),
        "plan.run": lambda: plan.run(q, k, v),
        "attention, planned before": lambda: attn_rs.attention(*dense, "causal"),
        "torch.nn.functional.scaled_dot_product_attention": lambda: torch.nn.functional.scaled_dot_product_attention(
            *(x.swapaxes(1, 2) for x in dense), enable_gqa=True
        ),
    }
    micro = lambda of: round(statistics.median(of) / 1e3, 2)  # noqa: E731
    for run in runs.values():
        times(300, run, args.device)
    found = {"device": attn_rs.describe(args.device), "torch": torch.__version__, "calls": args.calls}
    in_rust = []
    for _ in range(max(args.calls // 200, 1)):
        in_rust += plan.native.time_runs(q, k, v, out, 200)
    found["in Rust"] = micro(in_rust)
    found |= {name: micro(times(args.calls, run, args.device)) for name, run in runs.items()}
    found["overhead of plan.run, out given"] = round(found["plan.run, out given"] - found["in Rust"], 2)

    def anew(n=iter(range(10**9))):
        keys = 1 + next(n) % 128  # more lengths than plans that are kept
        attn_rs.attention(dense[0], dense[1][:, :keys], dense[2][:, :keys], "causal")

    times(130, anew, args.device)
    found["attention, planned by the call"] = micro(times(min(args.calls, 1000), anew, args.device))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
