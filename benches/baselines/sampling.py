"""Times sampling of attn-rs, FlashInfer and torch from the same logits, in turns, with a cold L2.

    python3 sampling.py --ours './attn bench --sampling' [--rounds 7] [--reps 5] [--batches 1,64,512] [--out FILE]
        [--cases 'min-p 0.1'] [--without 'flashinfer mask,cake']

A chain of a peer is all of its kernels from f32 logits to ids: softmax where it needs probabilities, then filters and
the draw. Chains of several kernels are replayed as a CUDA graph, so that no host time counts. The output is one JSON
line a case: medians in milliseconds, and the ratio of ours to the best peer (below 1 ours is faster). With --commit, the
file begins with what `cargo xtask bench-report --add` asks for.
"""

import argparse, datetime, json, shlex, subprocess
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
        both = s.top_k_top_p_sampling_from_probs
        chains["flashinfer joint"] = lambda l: both(soft(l), case["top_k"], case["top_p"], filter_apply_order="joint")
        chains["flashinfer"] = lambda l: both(soft(l), case["top_k"], case["top_p"])
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
    ap.add_argument("--cases", default=";".join(CASES), help="names of cases, with ; between them")
    ap.add_argument("--without", default="", help="chains to leave out, such as those whose module compiles for long")
    ap.add_argument("--out")
    ap.add_argument("--commit")
    a = ap.parse_args()
    ours = Ours(a.ours)
    out = open(a.out, "a") if a.out else None
    if out and a.commit:
        about = {"name": "sampling", "title": "Sampling", "device": torch.cuda.get_device_name(), "commit": a.commit}
        about |= {"date": datetime.date.today().isoformat(), "logits": "f32, 128,256 tokens"}
        about |= {"method": f"cold L2, in turns, median of {a.rounds}"}
        out.write(json.dumps({"about": about}) + "\n")
    for name in a.cases.split(";"):
        case = CASES[name]
        for rows in map(int, a.batches.split(",")):
            logits = torch.randn(rows, VOCAB, device="cuda") * a.deviation
            ours.ask({"prepare": {"rows": rows, "vocab": VOCAB, "deviation": a.deviation, **case}})
            chains, cannot = {"torch": torch_chain(case)}, {}
            for label, make in (("flashinfer", flashinfer_chains), ("cake", cake_chains)):
                try:
                    chains.update(make(case))
                except Exception as error:
                    cannot[label] = f"{type(error).__name__}: {str(error)[:120]}"
            runners, how = {}, {}
            chains = {label: chain for label, chain in chains.items() if label not in a.without.split(",")}
            for label, chain in chains.items():
                try:
                    runners[label], how[label] = captured(chain, logits)
                except Exception as error:
                    cannot[label] = f"{type(error).__name__}: {str(error)[:120]}"
            times = {label: [] for label in ["attn", *runners]}
            for _ in range(a.rounds):
                times["attn"].append(ours.ask({"time": a.reps})["ms"])
                for label, run in runners.items():
                    times[label].append(bench(run, a.reps, 1))
            ms = {label: median(x) for label, x in times.items()}
            best = min((x for label, x in ms.items() if label != "attn"), default=None)
            row = {"case": f"{name}, {rows} rows", "ms": ms, "how": how, "cannot": cannot}
            line = json.dumps(row | ({"ratio": {"attn": ms["attn"] / best}} if best else {}))
            print(line, flush=True)
            if out:
                out.write(line + "\n")
            del logits, runners


main()
