"""Runners: planned once, checked once, timed by graph replay where they can be captured."""
import json
import os
import sys
import time
import torch

DEV = torch.device("cuda")
_flush = None
PATIENCE_S = 8
eager_only = set()  # runners whose replays did not end, in a process before this one
without = set()  # those that did not end outside of a graph either
answers = None  # where interleave.py reads


def wait(event, f):
    """Until what came before `event` is done; a runner that never ends takes the process with it, since nothing else runs on its device any more."""
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
            torch.cuda._sleep(3_000_000)  # longer than the host takes to launch, so that only the device is timed
        a, b = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        a.record(); f(); b.record(); wait(b, f)
        ts.append(a.elapsed_time(b))
    return sorted(ts)[len(ts) // 2]


class Runner:
    """One run; keeps alive what it reads."""

    def __init__(self, f, eager=True, alive=None, name=None):
        self.f, self.eager, self.alive, self.name = f, eager, alive, name

    def __call__(self):
        self.f()


def ready(name, plan, run, alive, check, eager=None, extra=None):
    """(name, runner, extra), or (name, None, why not). `run` gives the output, `check` compares it: (error, what it may be). `eager` says why it is not captured."""
    if name in without:
        return name, None, "it does not end"
    if name in eager_only:
        eager = eager or "its replays did not end"
    try:
        t = time.time()
        plan(); o = run(); torch.cuda.synchronize()
        info = {"first_s": round(time.time() - t, 2), **(extra or {})}

        def wrong(o):
            info["err"], most = check(o)
            return f"wrong results: off by {info['err']:.2g}, at most {most:.2g} is rounding" if info["err"] > most else None
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
                done = torch.cuda.Event(); done.record(); wait(done, name)
                f = g.replay
            except Exception as e:
                eager = f"{type(e).__name__}: {str(e)[:120]}"
        info["timed"] = f"eager: {eager}" if eager else "graph"
        bad = None if eager else wrong(o)
        if bad:
            return name, None, f"replayed: {bad}"
        return name, Runner(f, bool(eager), (alive, o), name), info
    except Exception as e:
        return name, None, f"{type(e).__name__}: {str(e)[:160]}"
