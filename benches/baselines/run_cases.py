"""Times the baselines for a case file, the JSON lines that `attn bench` reads.

Baselines: FlashInfer (fa2, fa3, MLA, decode on both cores, BatchAttention, POD, cascade, block-sparse), cuDNN
and FlashAttention-2 through torch SDPA, FlexAttention, cuDNN's flex_attention (cudnn-flex), FlashAttention-4 (fa4),
FlashMLA (latent.py says where its library is).

    python3 run_cases.py CASES.jsonl [--out FILE] [--baselines flashinfer,cudnn,flash2,flex,..] [--reps 15]
        one baseline after the other
    python3 run_cases.py --serve [--baselines ..]
        for interleave.py

A baseline that cannot run a case gives the reason. So does one with wrong results: mixed, cascade and sparse cases are
compared with f32 attention of some rows, and `err` is the largest difference. Times are medians of CUDA events with the
L2 overwritten before each launch. FlashInfer is timed by graph replay, or as `timed` says. Times taken one after the
other vary by about 6 % with power and clock history: use interleave.py for comparisons.

The serve protocol has one JSON object a line, answered by one a line:
    {"prepare": CASE}           -> {"ready": {RUNNER: {extra}}, "cannot": {RUNNER: why}}
    {"time": RUNNER, "reps": N} -> {"ms": median}
    {"drop": true}              -> {"dropped": true}
    {"verify": CASE, "folder": F} -> {"outputs": {RUNNER: file}, "cannot": {RUNNER: why}}
        the output of each runner over the tensors in F, which attn-rs wrote there (shared_tensors.py)
Beside "prepare", "eager" and "without" list runners that are not captured in a graph, and runners that are left out.
If a runner does not end, the last answer is {"stuck": RUNNER}.
"""

import argparse, gc, json, os, sys
import torch

import case_files
from cases import DT, figures, kind, lens
from cudnn_flex import cudnn_flex
from fa4 import fa4
from flashinfer_plain import plain
from flashinfer_serving import serving
import latent
import shared_tensors
import timing
from timing import bench
from torch_baselines import torch_baseline

BASELINES = "flashinfer,flashmla,cudnn,flash2,flex,cudnn-flex,fa4"


def runners(case, baselines):
    for p in baselines:
        try:
            if p == "flashinfer":
                yield from {"plain": plain, "latent": latent.flashinfer}.get(kind(case), serving)(case)
            elif p == "flashmla":
                yield from latent.flashmla(case) if kind(case) == "latent" else ()
            elif p in ("cudnn-flex", "fa4"):
                yield from (fa4 if p == "fa4" else cudnn_flex)(case)
            else:
                yield from torch_baseline(case, p)
        except Exception as e:
            yield p, None, f"{type(e).__name__}: {str(e)[:160]}"


def outputs(case, folder, baselines):
    """Writes the output of each runner over the tensors in `folder`."""
    written, cannot = {}, {}
    dim = int(case["values"].removeprefix("keys:")) if kind(case) == "latent" else case["head_dim"]
    shape = (sum(lens(case["qo_lens"])), case["qo_heads"], dim)
    shared_tensors.folder = folder
    try:
        for name, f, x in runners(case, baselines):
            if not f:
                cannot[name] = x
                continue
            path = os.path.join(folder, f"{name}.bin")
            try:
                shared_tensors.write(f.output(), shape, DT[case["dtype"]], path)
                written[name] = path
            except Exception as e:
                cannot[name] = f"{type(e).__name__}: {str(e)[:160]}"
    finally:
        shared_tensors.folder = None
    gc.collect()
    torch.cuda.empty_cache()
    return {"outputs": written, "cannot": cannot}


def serve(baselines):
    out = timing.answers = sys.stdout
    sys.stdout = sys.stderr  # libraries print; the protocol alone goes to the real stdout
    ready = {}
    for line in sys.stdin:
        m = json.loads(line)
        if "prepare" in m:
            ready, info, cannot = {}, {}, {}
            timing.eager_only, timing.without = set(m.get("eager", [])), set(m.get("without", []))
            for name, f, x in runners(m["prepare"], baselines):
                if f:
                    ready[name], info[name] = f, x
                else:
                    cannot[name] = x
            a = {"ready": info, "cannot": cannot}
        elif "verify" in m:
            a = outputs(m["verify"], m["folder"], baselines)
        elif "time" in m:
            a = {"ms": bench(ready[m["time"]], m.get("reps", 3), warm=1)}
        else:
            ready = {}
            gc.collect()
            torch.cuda.empty_cache()
            a = {"dropped": True}
        print(json.dumps(a), file=out, flush=True)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("cases", nargs="?")
    ap.add_argument("--out")
    ap.add_argument("--reps", type=int, default=15)
    ap.add_argument("--baselines", default=BASELINES)
    ap.add_argument("--serve", action="store_true")
    a = ap.parse_args()
    baselines = a.baselines.split(",")
    if a.serve:
        return serve(baselines)
    out = open(a.out, "w") if a.out else None
    for case in case_files.read(a.cases):
        for baseline, f, x in runners(case, baselines):
            r = dict(case=case, baseline=baseline, **(figures(case, bench(f, a.reps)) | x if f else {"cannot": x}))
            if out:
                out.write(json.dumps(r) + "\n")
                out.flush()
            if f or not x.startswith("equal lengths"):
                err = f" err {x['err']:.1g}" if f and "err" in x else ""
                print(
                    f"{case.get('name', case['variant']):44s} {baseline:26s} "
                    + (f"{r['ms']*1e3:9.1f} us {r['gbps']:7.0f} GB/s {r['tflops']:6.1f} TFLOP/s{err}" if f else x),
                    flush=True,
                )


if __name__ == "__main__":
    main()
