"""Times sampling of attn-rs, FlashInfer and torch from the same logits, in turns, with a cold L2.

    python3 sampling.py --ours './attn bench --sampling' [--rounds 7] [--reps 5] [--batches 1,64,512] [--out FILE]

A chain of a peer is all of its kernels from f32 logits to ids: softmax where it needs probabilities, then filters and
the draw. Chains of several kernels are replayed as a CUDA graph, so that no host time counts. The output is one JSON
line a case: medians in microseconds, and the ratio of the best peer to ours (above 1 ours is faster).
"""

import argparse, json, shlex, subprocess
from statistics import median

import torch

from timing import bench

VOCAB = 128256
CASES = {
    "no filter": {},
    "top-p 0.9": {"top_p": 0.9},
    "top-k 50, top-p 0.9": {"top_k": 50, "top_p": 0.9},
    "min-p 0.1": {"min_p": 0.1},
}


class Ours:
    def __init__(self, command):
        self.p = subprocess.Popen(shlex.split(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

    def ask(self, message):
        self.p.stdin.write(json.dumps(message) + "\n")
        self.p.stdin.flush()
        answer = json.loads(self.p.stdout.readline())
        if "error" in answer:
            raise SystemExit(answer["error"])
        return answer


def torch_chain(case):
    """As engines write it in torch: a sort for top-p, a draw by exponential noise."""

    def run(logits):
        probs = torch.softmax(logits, -1)
        ids = None
        if case.get("top_k"):
            probs, ids = torch.topk(probs, case["top_k"])
            probs = probs / probs.sum(-1, keepdim=True)
        if case.get("min_p"):
            probs = probs * (probs >= case["min_p"] * probs.amax(-1, keepdim=True))
        if case.get("top_p"):
            if ids is None:
                probs, ids = torch.sort(probs, descending=True)
            before = probs.cumsum(-1) - probs
            probs = probs * (before < case["top_p"])
        drawn = (probs / torch.empty_like(probs).exponential_()).argmax(-1, keepdim=True)
        return drawn if ids is None else ids.gather(1, drawn)

    return run


def flashinfer_chains(case):
    import flashinfer.sampling as s

    soft = lambda logits: s.softmax(logits, 1.0)
    chains = {}
    if case.get("top_k"):
        chains["flashinfer"] = lambda l: s.top_k_top_p_sampling_from_probs(soft(l), case["top_k"], case["top_p"])
        chains["flashinfer mask"] = lambda l: s.top_k_top_p_sampling_from_logits(l, case["top_k"], case["top_p"])
    elif case.get("top_p"):
        chains["flashinfer"] = lambda l: s.top_p_sampling_from_probs(soft(l), case["top_p"])
    elif case.get("min_p"):
        chains["flashinfer"] = lambda l: s.min_p_sampling_from_probs(soft(l), case["min_p"])
    else:
        chains["flashinfer"] = lambda l: s.sampling_from_logits(l)
        chains["flashinfer probs"] = lambda l: s.sampling_from_probs(soft(l))
    return chains


def cake_chains(case):
    from flashinfer import cake_sampling
    import flashinfer.sampling as s

    if not case.get("top_k"):
        return {}
    run = cake_sampling.top_k_top_p_sampling_from_probs
    return {"cake": lambda l: run(s.softmax(l, 1.0), case["top_k"], case["top_p"])}


def captured(run, logits):
    """A replay of the chain, or the chain if it cannot be captured."""
    for _ in range(3):
        run(logits)
    torch.cuda.synchronize()
    try:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            kept = run(logits)
        graph.kept = kept
        return graph.replay, "graph"
    except Exception as error:
        torch.cuda.synchronize()

        def eager():
            run(logits)

        eager.eager = True
        return eager, f"eager: {type(error).__name__}"


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--ours", required=True)
    ap.add_argument("--rounds", type=int, default=7)
    ap.add_argument("--reps", type=int, default=5)
    ap.add_argument("--batches", default="1,64,512")
    ap.add_argument("--deviation", type=float, default=1.0)
    ap.add_argument("--without", default="")
    ap.add_argument("--out")
    a = ap.parse_args()
    ours = Ours(a.ours)
    out = open(a.out, "a") if a.out else None
    for name, case in CASES.items():
        for rows in map(int, a.batches.split(",")):
            logits = torch.randn(rows, VOCAB, device="cuda") * a.deviation
            ours.ask({"prepare": {"rows": rows, "vocab": VOCAB, "deviation": a.deviation, **case}})
            chains, cannot = {"torch": torch_chain(case)}, {}
            for label, make in (("flashinfer", flashinfer_chains), ("cake", cake_chains)):
                if label in a.without.split(","):
                    continue
                try:
                    chains.update(make(case))
                except Exception as error:
                    cannot[label] = f"{type(error).__name__}: {str(error)[:120]}"
            runners, how = {}, {}
            for label, chain in chains.items():
                try:
                    runners[label], how[label] = captured(chain, logits)
                except Exception as error:
                    cannot[label] = f"{type(error).__name__}: {str(error)[:120]}"
            us = {label: [] for label in ["attn", *runners]}
            for _ in range(a.rounds):
                us["attn"].append(1e3 * ours.ask({"time": a.reps})["ms"])
                for label, run in runners.items():
                    us[label].append(1e3 * bench(run, a.reps, 1))
            us = {label: round(median(x), 1) for label, x in us.items()}
            best = min(x for label, x in us.items() if label != "attn") if runners else 0
            line = json.dumps(
                {"case": name, "rows": rows, "us": us, "best_to_ours": round(best / us["attn"], 2), "how": how, "cannot": cannot}
            )
            print(line, flush=True)
            if out:
                out.write(line + "\n")
            del logits, runners


main()
