"""A script of a FlashInfer user, for FlashInfer or attn_rs.flashinfer: the line of the import alone differs.

    python benches/flashinfer_script.py --module flashinfer            # runs each case once, and prints its checksum
    python benches/flashinfer_script.py --module attn_rs.flashinfer
    python benches/flashinfer_script.py --race [--runs 50]             # both in one process, in turns
    python benches/flashinfer_script.py --host [--calls 2000]          # the host's time of attn_rs.flashinfer's calls

A race prints a line of JSON for each case: medians in microseconds of CUDA events over cold L2 (a buffer of twice its
size is written before each run; a plan is timed by the host's clock), their ratio, and the relative Frobenius error of
the outputs between the two. `--small --device cpu` tries the script without a GPU, with the host's clock alone.
"""

import argparse
import importlib
import itertools
import json
import statistics
import time

import torch

HEADS, KV_HEADS, DIM, PAGE = 32, 8, 128, 16


class Inputs:
    """Random bfloat16 data, the same for both modules."""

    def __init__(self, device, small):
        torch.manual_seed(0)
        self.device, self.workspace_bytes = device, (1 if small else 256) << 20
        self.decode_lens = [24 + 3 * i for i in range(4)] if small else [1024 + 97 * i for i in range(64)]
        self.queries = [8, 5] if small else [1024, 512, 2048, 333]
        self.prompts = [24, 30] if small else [4096, 2048, 2048, 1333]
        self.shared, self.vocab, self.rows = (40, 512, 4) if small else (8192, 128_256, 64)
        self.own = [7 + i for i in range(4)] if small else [256 + 3 * i for i in range(64)]
        pages = lambda lens: sum(-(-n // PAGE) for n in lens)  # noqa: E731
        count = max(pages(self.decode_lens), pages(self.prompts), pages([self.shared, *self.own]))
        self.cache = self.normal(count, 2, PAGE, KV_HEADS, DIM)
        self.order = torch.randperm(count, dtype=torch.int32, device="cpu").to(device)
        self.q = {n: self.normal(n, HEADS, DIM) for n in (len(self.decode_lens), sum(self.queries), len(self.own))}
        self.k, self.v = (self.normal(sum(self.prompts), KV_HEADS, DIM) for _ in range(2))
        self.logits = torch.randn(self.rows, self.vocab, device=device) * 3

    def normal(self, *shape):
        return torch.randn(shape, device=self.device).bfloat16()

    def ints(self, numbers):
        return torch.tensor(list(numbers), dtype=torch.int32, device=self.device)

    def ends(self, counts):
        return self.ints([0, *itertools.accumulate(counts)])

    def pages(self, lens, first=0):
        """Prefix sums of pages, pages, and the slots of last pages."""
        counts = [-(-n // PAGE) for n in lens]
        indices = self.order[first : first + sum(counts)].contiguous()
        return self.ends(counts), indices, self.ints((n - 1) % PAGE + 1 for n in lens)


def script(flashinfer, at):
    """What a user writes: each case is a function that runs it, and one that returns what can be compared."""
    how = {"q_data_type": torch.bfloat16, "kv_data_type": torch.bfloat16}
    sizes = HEADS, KV_HEADS, DIM, PAGE
    workspace = lambda: torch.empty(at.workspace_bytes, dtype=torch.uint8, device=at.device)  # noqa: E731
    q = at.q[len(at.decode_lens)]

    decode = flashinfer.BatchDecodeWithPagedKVCacheWrapper(workspace(), "NHD", use_tensor_cores=True)
    decode.plan(*at.pages(at.decode_lens), *sizes, **how)
    yield f"decode paged {len(q)}", lambda: decode.run(q, at.cache), lambda o: o

    rows = at.q[sum(at.queries)]
    prefill = flashinfer.BatchPrefillWithPagedKVCacheWrapper(workspace(), "NHD")
    prefill.plan(at.ends(at.queries), *at.pages(at.prompts), *sizes, causal=True, **how)
    yield f"prefill paged causal {len(rows)}", lambda: prefill.run(rows, at.cache), lambda o: o

    ragged = flashinfer.BatchPrefillWithRaggedKVCacheWrapper(workspace(), "NHD")
    ragged.plan(at.ends(at.queries), at.ends(at.prompts), HEADS, KV_HEADS, DIM, causal=True, **how)
    yield f"prefill ragged causal {len(rows)}", lambda: ragged.run(rows, at.k, at.v), lambda o: o

    requests = at.q[len(at.own)]
    shared, own = at.pages([at.shared]), at.pages(at.own, first=-(-at.shared // PAGE))
    cascade = flashinfer.MultiLevelCascadeAttentionWrapper(2, workspace(), "NHD")
    ends = [at.ends([len(requests)]), at.ends([1] * len(requests))]
    cascade.plan(ends, *map(list, zip(shared, own, strict=True)), *sizes, **how)
    yield f"cascade {at.shared} + own, {len(requests)}", lambda: cascade.run(requests, at.cache), lambda o: o

    arrays = at.pages(at.decode_lens)
    in_graph = flashinfer.CUDAGraphBatchDecodeWithPagedKVCacheWrapper(
        workspace(), *(torch.zeros_like(array) for array in arrays), "NHD", True
    )
    out = torch.empty_like(q)
    in_graph.plan(*arrays, *sizes, **how)
    in_graph.run(q, at.cache, out=out)
    replay = lambda: in_graph.run(q, at.cache, out=out)  # noqa: E731
    if at.device != "cpu":
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                in_graph.run(q, at.cache, out=out)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            in_graph.run(q, at.cache, out=out)
        replay = graph.replay
    # another batch than the one that was captured
    in_graph.plan(*at.pages([n - 1 for n in at.decode_lens]), *sizes, **how)
    yield f"decode in a CUDA graph, replay, {len(q)}", replay, lambda _: out
    yield "plan of the wrapper in a CUDA graph", lambda: in_graph.plan(*arrays, *sizes, **how), lambda _: out

    def kept(tokens):
        # draws differ: each is among the tokens that the filters keep
        probs = torch.softmax(at.logits, -1)
        largest, order = probs.topk(50)
        before = largest.cumsum(-1) - largest
        assert bool(((order == tokens.long()[:, None]) & (before < 0.9)).any(-1).all()), "a dropped token was drawn"
        return largest

    # in this order FlashInfer compiles no module for `top_k`, which takes many minutes
    both = {"filter_apply_order": "joint"}
    sample = flashinfer.sampling.top_k_top_p_sampling_from_logits
    yield f"sampling top-k top-p {at.rows} x {at.vocab}", lambda: sample(at.logits, 50, 0.9, **both), kept


def cold(at):
    """A function that empties L2."""
    if at.device == "cpu":
        return lambda: None
    size = torch.cuda.get_device_properties(at.device).L2_cache_size
    flush = torch.empty(2 * size, dtype=torch.uint8, device=at.device)
    return flush.zero_


def timed(name, run, at, flush):
    """Microseconds of one run, and what it returned. A plan is work of the host, and is timed by its clock."""
    flush()
    if at.device == "cpu" or name.startswith("plan"):
        if at.device != "cpu":
            torch.cuda.synchronize()
        start = time.perf_counter()
        got = run()
        return (time.perf_counter() - start) * 1e6, got
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    # the host is ahead when the device begins, so that its launches are not in the time
    torch.cuda._sleep(1_000_000)
    begin.record()
    got = run()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e3, got


def race(at, names, runs):
    flush = cold(at)
    for cases in zip(*(script(importlib.import_module(name), at) for name in names), strict=True):
        times, results = [[] for _ in names], [None] * len(names)
        for turn in range(runs + 3):
            # in turns, each first as often as the other
            for i in range(len(names)) if turn % 2 else reversed(range(len(names))):
                took, got = timed(*cases[i][:2], at, flush)
                if turn >= 3:
                    times[i].append(took)
                elif turn == 2:
                    results[i] = cases[i][2](got).float().clone()
        medians = [statistics.median(of) for of in times]
        line = {"case": cases[0][0], **{f"{name}, us": round(of, 2) for name, of in zip(names, medians, strict=True)}}
        line["ratio"] = round(medians[-1] / medians[0], 3)
        error = (results[-1] - results[0]).norm() / results[0].norm()
        print(json.dumps({**line, "error": float(f"{float(error):.2e}")}), flush=True)


def host_times(run, at, calls):
    """The median of a call's time on the host in microseconds: nobody waits, but now and then outside of the time."""
    of = []
    for i in range(calls):
        if i % 100 == 0 and at.device != "cpu":
            torch.cuda.synchronize()
        start = time.perf_counter_ns()
        run()
        of.append(time.perf_counter_ns() - start)
    return round(statistics.median(of) / 1e3, 2)


def host(at, calls):
    """What attn_rs.flashinfer costs on the host over attn_rs, and plans that are made on the device."""
    import attn_rs
    import attn_rs.flashinfer as flashinfer

    q, (ends, indices, last) = at.q[len(at.decode_lens)], at.pages(at.decode_lens)
    wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(torch.empty(16, dtype=torch.uint8, device=at.device))
    types = {"q_data_type": torch.bfloat16, "kv_data_type": torch.bfloat16}
    wrapper.plan(ends, indices, last, HEADS, KV_HEADS, DIM, PAGE, **types)
    requests, pages = len(at.decode_lens), at.cache.shape[0]
    rows = list(range(requests + 1)), ends.cpu(), indices.cpu()
    batch = attn_rs.Batch.paged(*rows, kv_lens=at.decode_lens, page_size=PAGE, num_pages=pages)
    heads = {"qo_heads": HEADS, "kv_heads": KV_HEADS, "head_dim": DIM, "dtype": torch.bfloat16, "device": at.device}
    plan, out = attn_rs.Plan(batch, **heads), torch.empty_like(q)
    k, v = at.cache[:, 0], at.cache[:, 1]
    capacity = attn_rs.Capacity(requests, len(indices) * PAGE, page_size=PAGE, num_pages=pages)
    updated = attn_rs.Plan(batch, capacity=capacity, **heads)
    on_device = attn_rs.DeviceBatch.paged(at.ints(rows[0]), at.ints(at.decode_lens), ends, indices)

    def step():
        updated.update_on_device(on_device)
        updated.run(q, k, v, out=out)

    measured = {
        "wrapper.run, out given": lambda: wrapper.run(q, at.cache, out=out),
        "plan.run, out given": lambda: plan.run(q, k, v, out=out),
        "wrapper.run": lambda: wrapper.run(q, at.cache),
        "plan.run": lambda: plan.run(q, k, v),
        "update_on_device": lambda: updated.update_on_device(on_device),
        "update_on_device and run": step,
    }
    for run in measured.values():
        host_times(run, at, 20)
    found = {name: host_times(run, at, calls) for name, run in measured.items()}
    if at.device != "cpu":
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
        found["replay of a graph of both"] = host_times(graph.replay, at, calls)
    for name in ("run, out given", "run"):
        found[f"overhead of wrapper.{name}"] = round(found[f"wrapper.{name}"] - found[f"plan.{name}"], 2)
    print(json.dumps({"case": "host, us", "calls": calls, **found}))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--module", default="attn_rs.flashinfer", help="flashinfer or attn_rs.flashinfer")
    parser.add_argument("--race", nargs="*", metavar="MODULE", help="both in turns; or these modules")
    parser.add_argument("--host", action="store_true", help="the host's time of attn_rs.flashinfer")
    parser.add_argument("--runs", type=int, default=50, help="of each module in a race, after 3 that do not count")
    parser.add_argument("--calls", type=int, default=2000, help="of each function with --host")
    parser.add_argument("--small", action="store_true", help="sizes for a try on a CPU")
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()
    torch.set_grad_enabled(False)
    at = Inputs(args.device, args.small)
    if args.race is not None:
        race(at, args.race or ["flashinfer", "attn_rs.flashinfer"], args.runs)
    if args.host:
        host(at, args.calls)
    if args.race is None and not args.host:
        for name, run, result in script(importlib.import_module(args.module), at):
            print(json.dumps({"case": name, "norm": round(float(result(run()).float().norm()), 3)}), flush=True)


if __name__ == "__main__":
    main()
