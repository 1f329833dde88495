"""Every text model that the installed Transformers has, with its own `eager` attention and with ours.

    python sweep.py --out sweep.jsonl --processes 16 --device cuda

Models are tiny, with random weights, in float32. They are compared without padding, and with padding on the left and on
the right; with a cache, in steps of one and of several tokens; and in what they generate. A family is `right` where all
that `eager` computes is the same within 1e-5 of the largest logit, `refused` at load, with words, or else a fault.
"""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

TOLERANCE = 1e-5
SECONDS = 120


def inputs(model, kind, device):
    """Arguments of the model, and which of its outputs count, by the name of a check."""
    import torch

    torch.manual_seed(2)
    ids = torch.randint(5, 100, (2, 24), device=device)
    left, right = torch.ones_like(ids), torch.ones_like(ids)
    left[0, :7], right[0, -7:] = 0, 0
    for name, mask in (("no padding", None), ("left padding", left), ("right padding", right)):
        given = {"input_ids": ids} if mask is None else {"input_ids": ids, "attention_mask": mask}
        counts = torch.ones_like(ids) if mask is None else mask
        if model.config.model_type == "blt":
            # its default cache is of no config of its own
            given["use_cache"] = False
        if kind == "seq2seq" and model.config.is_encoder_decoder:
            given["decoder_input_ids"] = torch.randint(5, 100, (2, 19), device=device)
            counts = torch.ones_like(given["decoder_input_ids"])
        yield name, given, counts.bool()


def main_output(outputs):
    for name in ("logits", "last_hidden_state", "prediction_logits", "prediction_scores"):
        if getattr(outputs, name, None) is not None:
            return getattr(outputs, name)
    return outputs[0]


def run(model, given):
    import torch

    torch.manual_seed(3)
    with torch.no_grad():
        return main_output(model(**given))


def steps(model, ids):
    """Outputs with a cache: a prompt, steps of one token, and one of several."""
    import torch

    taken, cache = [], None
    with torch.no_grad():
        for first, last in ((0, 12), (12, 13), (13, 14), (14, 19)):
            torch.manual_seed(3)
            given = {} if cache is None else {"past_key_values": cache}
            outputs = model(input_ids=ids[:, first:last], use_cache=True, **given)
            cache = outputs.past_key_values
            taken.append(main_output(outputs))
    return torch.cat(taken, 1)


def generated(model, given):
    import torch

    torch.manual_seed(3)
    kept = {name: given[name] for name in ("input_ids", "attention_mask") if name in given}
    how = {"max_new_tokens": 8, "min_new_tokens": 8, "do_sample": False, "num_beams": 1, "disable_compile": True}
    return model.generate(**kept, **how)


def error(got, want, counts):
    import torch

    if counts is not None and got.shape[: counts.dim()] == counts.shape:
        got, want = got[counts], want[counts]
    if not want.isfinite().all():
        raise FloatingPointError("eager gives numbers that are not finite")
    return ((got - want).abs().max() / want.abs().max()).item() if got.isfinite().all() else float("inf")


def checks(kind, models, device):
    """Names, and a function of a model; with what counts of its result, or None for tokens."""
    cases = list(inputs(models[0], kind, device))
    for name, given, counts in cases:
        yield name, lambda model, given=given: run(model, given), counts
    if kind == "causal":
        yield "cache", lambda model: steps(model, cases[0][1]["input_ids"]), None
    if kind in ("causal", "seq2seq"):
        for name, given, _ in cases[:2]:
            yield f"generation, {name}", lambda model, given=given: generated(model, given), None


def compare(family, kind, name, device):
    """What the table has of a family."""
    import families
    import torch

    import attn_rs
    from attn_rs import transformers as door

    said = lambda exception: " ".join(f"{type(exception).__name__}: {exception}".split())[:300]  # noqa: E731
    try:
        of = families.config(family, kind, name)
        eager = families.build(name, of, "eager", device)
        families.randomise(eager)
    except Exception as exception:
        return {"result": "not built", "why": families.NOT_BUILT.get(family) or said(exception)}
    try:
        ours = families.build(name, of, "attn_rs", device)
    except attn_rs.Unsupported as exception:
        return {"result": "refused", "why": str(exception)}
    except Exception as exception:
        return {"result": "failed", "why": said(exception)}
    ours.load_state_dict(eager.state_dict())
    calls, errors, skipped = Calls(door), {}, {}
    with calls:
        for check, compute, counts in checks(kind, (eager, ours), device):
            try:
                want = compute(eager)
                if want.is_floating_point() and not want.isfinite().all():
                    raise FloatingPointError("eager gives numbers that are not finite")
            except Exception as exception:
                skipped[check] = said(exception)
                continue
            try:
                got = compute(ours)
            except attn_rs.Unsupported as exception:
                return {"result": "refused in use", "why": str(exception), "check": check}
            except Exception as exception:
                return {"result": "failed", "why": said(exception), "check": check}
            if want.is_floating_point():
                errors[check] = error(got, want, counts)
            else:
                errors[check] = 0.0 if torch.equal(got, want) else 1.0
    if "no padding" not in errors:
        return {"result": "not built", "why": families.NOT_BUILT.get(family) or next(iter(skipped.values()))}
    found = {"errors": errors, "skipped": skipped, "calls": calls.made, "variants": sorted(calls.variants)}
    worst = max(errors, key=errors.get)
    if errors[worst] <= TOLERANCE:
        return {"result": "right", **found}
    return {
        "result": "wrong",
        "why": f"{worst}: {errors[worst]:.1e}",
        "sdpa": sdpa(eager, name, of, kind, device),
        **found,
    }


def sdpa(eager, name, of, kind, device):
    """How far Transformers' other attention is from `eager`, to tell whose fault a difference is."""
    import families

    found = {}
    try:
        model = families.build(name, of, "sdpa", device)
        model.load_state_dict(eager.state_dict())
        for check, compute, counts in checks(kind, (eager, model), device):
            found[check] = error(compute(model).float(), compute(eager).float(), counts)
    except Exception as exception:
        found["ended with"] = f"{type(exception).__name__}: {exception}"[:300]
    return found


class Calls:
    """Counts the calls of our attention, and which variants they were."""

    def __init__(self, door):
        from attn_rs import _attention

        self.attention, self.made, self.variants = _attention, 0, set()

    def __enter__(self):
        self.run = self.attention.run

        def counted(q, k, v, variant, *args, **kwargs):
            self.made += 1
            self.variants.add(variant)
            return self.run(q, k, v, variant, *args, **kwargs)

        self.attention.run = counted

    def __exit__(self, *_):
        self.attention.run = self.run


def work(cases, device, out):
    """Compares families, a line of JSON for each."""
    import warnings

    import torch

    import attn_rs.transformers

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    attn_rs.transformers.register()

    def late(*_):
        raise TimeoutError(f"more than {SECONDS} seconds")

    signal.signal(signal.SIGALRM, late)
    with open(out, "a") as file:
        for family, kind, name in cases:
            started = time.monotonic()
            print(json.dumps([family, kind, name]), flush=True)
            signal.alarm(SECONDS)
            try:
                found = compare(family, kind, name, device)
            except Exception as exception:
                found = {"result": "failed", "why": f"{type(exception).__name__}: {exception}"[:300]}
            signal.alarm(0)
            line = {
                "family": family,
                "kind": kind,
                "class": name,
                **found,
                "seconds": round(time.monotonic() - started, 1),
            }
            file.write(json.dumps(line) + "\n")
            file.flush()


def spread(cases, device, out, processes):
    """Compares families in processes of their own; where one dies, its family has failed and the rest goes on."""
    parts = [cases[i::processes] for i in range(processes)]
    started = {}

    def start(part):
        if not part:
            return
        how = [sys.executable, __file__, "--work", "--device", device, "--out", out]
        log = open(f"{out}.{len(started)}.log", "w+")
        process = subprocess.Popen(how, stdin=subprocess.PIPE, stdout=log, stderr=subprocess.DEVNULL, text=True)
        process.stdin.write(json.dumps(part))
        process.stdin.close()
        started[process] = (part, log)

    for part in parts:
        start(part)
    running = set(started)
    while running:
        time.sleep(0.2)
        for process in [of for of in running if of.poll() is not None]:
            running.remove(process)
            part, log = started[process]
            log.seek(0)
            begun = [json.loads(line) for line in log if line.startswith("[")]
            log.close()
            os.unlink(log.name)
            if process.returncode and begun:
                family, kind, name = begun[-1]
                line = {"family": family, "kind": kind, "class": name, "result": "failed"}
                with open(out, "a") as file:
                    file.write(json.dumps({**line, "why": f"the process ended with {process.returncode}"}) + "\n")
                rest = part[len(begun) :]
                before = set(started)
                start(rest)
                running |= set(started) - before


def about(device):
    """What the results are of."""
    import datetime

    import torch
    import transformers

    name = "a CPU" if device == "cpu" else f"an {torch.cuda.get_device_name(0)}"
    versions = {"transformers": transformers.__version__, "torch": torch.__version__.partition("+")[0]}
    return {"date": datetime.date.today().isoformat(), "device": name, **versions}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="sweep.jsonl", help="a line of JSON for each family")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--only", help="families, separated by commas")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        work([tuple(case) for case in json.load(sys.stdin)], args.device, args.out)
        return
    import families

    cases = list(families.kinds())
    if args.only:
        cases = [case for case in cases if case[0] in args.only.split(",")]
    Path(args.out).write_text(json.dumps(about(args.device)) + "\n")
    spread(cases, args.device, args.out, min(args.processes, len(cases)))
    counts = {}
    for line in Path(args.out).read_text().splitlines()[1:]:
        result = json.loads(line)["result"]
        counts[result] = counts.get(result, 0) + 1
    print(counts)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
