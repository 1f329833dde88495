"""Times attn-rs and the baselines, interleaved: every runner of a case is timed once per round in random order.

So power and clock history affect all runners alike.

    python3 interleave.py CASES.jsonl --ours './attn bench --serve' [--rounds 9] [--match REGEX] [--against REGEX]
                          [--out FILE] [--baselines ...]

Both sides speak the serve protocol of run_cases.py. `--ours` may be given several times, to compare two builds. Without
it only the baselines are timed. For each case the output is the median of each runner, and the ratio of ours to the
best baseline as the median over rounds (below 1 ours is faster).

    python3 interleave.py CASES.jsonl --ours './attn bench --serve' --verify [--match REGEX] [--out FILE]

compares instead of timing: attn-rs writes its tensors to files, every baseline runs over them, and attn-rs compares
their outputs with its own. It fails if one differs, or if nothing was compared.
"""

import argparse, json, os, random, re, shlex, subprocess, sys, tempfile
from statistics import median

import case_files

HERE = os.path.dirname(os.path.abspath(__file__))


class Stuck(Exception):
    """A runner did not end, and its process has exited."""

    def __init__(self, side, runner):
        super().__init__(f"{side.label}: {runner} does not end")
        self.side, self.runner = side, runner


class Side:
    def __init__(self, label, cmd):
        self.label, self.cmd = label, cmd
        self.start()

    def start(self):
        self.p = subprocess.Popen(self.cmd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

    def ask(self, m):
        self.p.stdin.write(json.dumps(m) + "\n")
        self.p.stdin.flush()
        line = self.p.stdout.readline()
        if not line:
            raise SystemExit(f"{self.label} ended (exit {self.p.wait()}) on {json.dumps(m)[:200]}")
        answer = json.loads(line)
        if "stuck" in answer:
            self.p.wait()
            raise Stuck(self, answer["stuck"])
        return answer


def name_of(side, runner):
    """The name in the output: `ours` for the case as it is, `ours:flat` for a run mode, a baseline's own name."""
    return runner if side.label == "baselines" else side.label + ("" if runner == "attn" else f":{runner}")


def interleaved(sides, case, eager, without, a, rng):
    """Times every runner of a case once a round. Returns (times, reasons why not, extra fields), by name."""
    ready, cannot, extra = [], {}, {}
    for s in sides:
        r = s.ask({"prepare": case, **({"eager": eager[s], "without": without[s]} if eager[s] or without[s] else {})})
        for k, x in r["ready"].items():
            ready.append((name_of(s, k), s, k))
            extra[name_of(s, k)] = x
        cannot.update({name_of(s, k): w for k, w in r["cannot"].items()})
    ms = {n: [] for n, _, _ in ready}
    for _ in range(a.rounds):
        rng.shuffle(ready)
        for n, s, k in ready:
            ms[n].append(s.ask({"time": k, "reps": a.reps})["ms"])
    for s in sides:
        s.ask({"drop": True})
    return ms, cannot, extra


def verify(ours, peers, cases, out):
    """Compares every baseline's output with ours over the same tensors. Returns whether all are within the bound."""
    compared, wrong = 0, 0
    for case in cases:
        name = case.get("name", case["variant"])
        if "baselines_kv_dtype" in case:
            print(f"{name:44s} not compared: baselines store other numbers", flush=True)
            continue
        with tempfile.TemporaryDirectory() as folder:
            shared = ours.ask({"share": case, "folder": folder})
            if "error" in shared:
                print(f"{name:44s} not shared: {shared['error']}", flush=True)
                continue
            answer = peers.ask({"verify": case, "folder": folder})
            results = {peer: ours.ask({"compare": file}) for peer, file in answer["outputs"].items()}
        for peer, why in answer["cannot"].items():
            print(f"{name:44s} {peer:26s} cannot: {why}", flush=True)
        for peer, result in results.items():
            passed = result.get("passed") is True
            compared, wrong = compared + 1, wrong + (not passed)
            verdict = "equal" if passed else "DIFFERS"
            why = result.get("error") or f"rel_err {result['rel_err']:.2e} row_err {result['row_err']:.2e}"
            print(f"{name:44s} {peer:26s} {verdict}: {why}", flush=True)
            if out:
                out.write(json.dumps({"case": name, "peer": peer, **result}) + "\n")
                out.flush()
    print(f"{compared} outputs of baselines compared with ours, {wrong} differ", flush=True)
    return compared > 0 and wrong == 0


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("cases")
    ap.add_argument("--ours", action="append", default=[])
    ap.add_argument("--rounds", type=int, default=9)
    ap.add_argument("--reps", type=int, default=3)
    ap.add_argument("--match", default="")
    ap.add_argument("--out")
    ap.add_argument("--against", default="", help="regex: count only these runners as baselines in the ratio")
    ap.add_argument("--without", action="append", default=[], help="a baselines' runner that is left out")
    ap.add_argument("--baselines", default="flashinfer,cudnn,flash2,flex,cudnn-flex,fa4")
    ap.add_argument("--seed", type=int, default=0)
    ap.add_argument("--verify", action="store_true", help="compare outputs over the same tensors; time nothing")
    ap.add_argument("--peers", help="the command that serves the baselines, in place of run_cases.py")
    a = ap.parse_args()
    rng = random.Random(a.seed)
    sides = [Side(f"ours{i or ''}", shlex.split(c)) for i, c in enumerate(a.ours)]
    if a.baselines:
        run_cases = [sys.executable, f"{HERE}/run_cases.py", "--serve", "--baselines", a.baselines]
        sides.append(Side("baselines", shlex.split(a.peers) if a.peers else run_cases))
    out = open(a.out, "w") if a.out else None
    if a.verify:
        if len(sides) != 2:
            raise SystemExit("--verify compares one --ours with the baselines")
        chosen = [case for case in case_files.read(a.cases) if re.search(a.match, case.get("name", case["variant"]))]
        sys.exit(0 if verify(*sides, chosen, out) else 1)
    # A runner that does not end stops its process. The case is repeated, and later cases run, with that runner outside
    # a graph, and then without it.
    eager, without = {s: [] for s in sides}, {s: a.without if s.label == "baselines" else [] for s in sides}
    for case in case_files.read(a.cases):
        name = case.get("name", case["variant"])
        if not re.search(a.match, name):
            continue
        while True:
            try:
                ms, cannot, extra = interleaved(sides, case, eager, without, a, rng)
                break
            except Stuck as stuck:
                print(stuck, file=sys.stderr, flush=True)
                if stuck.runner in eager[stuck.side]:
                    without[stuck.side].append(stuck.runner)
                eager[stuck.side].append(stuck.runner)
                stuck.side.start()
        baselines = [n for n in ms if not n.startswith("ours") and re.search(a.against, n)]
        ratios = (
            {
                n: median(t / min(ms[p][i] for p in baselines) for i, t in enumerate(ms[n]))
                for n in ms
                if n.startswith("ours")
            }
            if baselines
            else {}
        )
        rec = dict(
            case=case,
            ms={n: median(t) for n, t in ms.items()},
            spread={n: [min(t), max(t)] for n, t in ms.items()},
            ratio=ratios,
            cannot=cannot,
            extra=extra,
        )
        if out:
            out.write(json.dumps(rec) + "\n")
            out.flush()
        row = "  ".join(f"{n} {median(t)*1e3:.1f}" for n, t in sorted(ms.items(), key=lambda x: median(x[1])))
        print(f"{name:44s} us: {row}" + "".join(f"   {n}/best baseline {r:.3f}" for n, r in ratios.items()), flush=True)


if __name__ == "__main__":
    main()
