"""Runners: planned once, checked once, timed by graph replay if they can be captured."""

import json
import os
import sys
import time
import torch

DEV = torch.device("cuda")
_flush = None
PATIENCE_S = 8
eager_only = set()  # runners whose graph replay did not end in an earlier process
without = set()  # runners that did not end without a graph either
answers = None  # the stream that interleave.py reads


def wait(event, f):
    """Waits for `event`. If it does not complete, the process exits: nothing else can run on the device any more."""
    end = time.time() + PATIENCE_S
    while not event.query():
        if time.time() > end:
            name = getattr(f, "name", f)
            print(f"{name} did not end in {PATIENCE_S} s", file=sys.stderr, flush=True)
            if answers:
                print(json.dumps({"stuck": name}), file=answers, flush=True)
            os._exit(3)


def bench(f, reps, warm=3):
    global _flush
    if _flush is None:
        _flush = torch.empty(256 << 20, dtype=torch.uint8, device=DEV)
    for _ in range(warm):
        f()
    ts = []
    for _ in range(reps):
        _flush.zero_()
        if getattr(f, "eager", False):
            torch.cuda._sleep(3_000_000)  # covers the launch on the host, so that only device time is measured
        a, b = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        a.record()
        f()
        b.record()
        wait(b, f)
        ts.append(a.elapsed_time(b))
    return sorted(ts)[len(ts) // 2]


class Runner:
    """A launch, with the tensors that it reads. `o` is the output of a graph, which `f` does not return."""

    def __init__(self, f, eager=True, alive=None, name=None, o=None):
        self.f, self.eager, self.alive, self.name, self.o = f, eager, alive, name, o

    def __call__(self):
        return self.f()

    def output(self):
        """The output of one more run. A tuple holds the outputs of consecutive requests."""
        returned = self.f()
        torch.cuda.synchronize()
        o = self.o if returned is None else returned
        return torch.cat([x.reshape(-1, *x.shape[-2:]) for x in o]) if isinstance(o, (tuple, list)) else o


def ready(name, plan, run, alive, check, eager=None, extra=None):
    """Returns (name, runner, extra), or (name, None, reason).

    `run` returns the output. `check` compares it and returns (error, tolerance). `eager` is the reason why the runner
    is not captured in a graph.
    """
    if name in without:
        return name, None, "it does not end"
    if name in eager_only:
        eager = eager or "its replays did not end"
    try:
        t = time.time()
        plan()
        o = run()
        torch.cuda.synchronize()
        info = {"first_s": round(time.time() - t, 2), **(extra or {})}

        def wrong(o):
            info["err"], most = check(o)
            return (
                f"wrong results: off by {info['err']:.2g}, at most {most:.2g} is rounding"
                if info["err"] > most
                else None
            )

        bad = wrong(o)
        if bad:
            return name, None, bad
        t = time.time()
        for _ in range(10):
            plan()
        torch.cuda.synchronize()
        info["plan_us"] = round((time.time() - t) * 1e5, 1)
        f = run
        if not eager:
            try:
                g = torch.cuda.CUDAGraph()
                with torch.cuda.graph(g):
                    o = run()
                g.replay()
                done = torch.cuda.Event()
                done.record()
                wait(done, name)
                f = g.replay
            except Exception as e:
                eager = f"{type(e).__name__}: {str(e)[:120]}"
        info["timed"] = f"eager: {eager}" if eager else "graph"
        bad = None if eager else wrong(o)
        if bad:
            return name, None, f"replayed: {bad}"
        return name, Runner(f, bool(eager), alive, name, o), info
    except Exception as e:
        return name, None, f"{type(e).__name__}: {str(e)[:160]}"
