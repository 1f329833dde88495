"""Out tokens a second of traces in vLLM, for several attention backends in turns, with Llama-3.1-8B's shape and random
weights: a line of JSON for each backend and trace.

    traces.py --model DIR --backends FLASH_ATTN,CUSTOM --traces mixed,long,chat

DIR has a `config.json`. A backend may have settings: `CUSTOM:cascade=on+cudagraph_mode=PIECEWISE`. Each has a
process, which loads once; all share the GPU, so that each has `--cache-gib` of cache, or `cache_gib` of its settings.
`--smoke` compares greedy tokens of the backends with those of the first instead, with weights that make attention
matter; there `TRANSFORMERS` is a backend too, which is the model code of Transformers with its own attention.
"""

import argparse
import contextlib
import hashlib
import json
import os
import random
import subprocess
import sys
import time
import zlib
from types import SimpleNamespace

#: (prompt lengths, tokens out, samples of each, tokens that all prompts share)
TRACES = {
    "mixed": ([random.Random(5).randint(512, 2048) for _ in range(64)], 128, 1, 0),
    "long": ([8000] * 8, 128, 1, 0),
    "chat": ([512] * 256, 256, 1, 0),
    "skewed": ([32000] + [512] * 63, 128, 1, 0),
    "samples": ([4000] * 8, 128, 8, 0),
    "shared": ([8064] * 64, 128, 1, 8000),
    "eights": ([8000] * 64, 128, 1, 0),
}
#: prompt lengths, and those of prompts behind tokens that they share
SMOKE, SMOKE_SHARED = (7, 33, 129, 500, 1024, 3000), (700, (1, 20, 33, 500))
#: settings of a backend that are not options of attn_rs
OF_VLLM = ("kv_cache_dtype", "block_size", "cudagraph_mode", "enforce_eager", "cache_gib")
BUILDERS = {
    "FLASH_ATTN": ("vllm.v1.attention.backends.flash_attn", "FlashAttentionMetadataBuilder"),
    "CUSTOM": ("attn_rs_vllm.builder", "AttnRsBuilder"),
}


def arguments(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--backends", default="FLASH_ATTN,CUSTOM")
    parser.add_argument("--traces", default="mixed,long,chat")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--cache-gib", type=float, default=40.0)
    parser.add_argument("--layers", type=int, default=0, help="of the model; 0 for all")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--out")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def settle_environment():
    os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    # the driver reads what workers print
    os.environ.setdefault("VLLM_LOGGING_STREAM", "ext://sys.stderr")


def settings(backend):
    """Name, settings of vLLM and options of attn_rs."""
    name, _, given = backend.partition(":")
    pairs = dict(pair.split("=", 1) for pair in given.split("+") if pair)
    return name, {k: v for k, v in pairs.items() if k in OF_VLLM}, {k: v for k, v in pairs.items() if k not in OF_VLLM}


def prompts_of(trace):
    lengths, out, samples, shared = TRACES[trace]
    numbers = random.Random(zlib.crc32(trace.encode()))
    ids = lambda n: [numbers.randrange(1000, 100000) for _ in range(n)]  # noqa: E731
    first = ids(shared)
    return [first + ids(n - shared) for n in lengths], out, samples


def longest(args):
    if args.smoke:
        return max(SMOKE) + 64
    of = lambda trace: max(TRACES[trace][0]) + TRACES[trace][1]  # noqa: E731
    return max(of(trace) for trace in args.traces.split(",")) + 16


class Worker:
    """A process with one backend: it answers a line for each that it reads."""

    def __init__(self, backend, argv, script=__file__):
        self.backend = backend
        command = [sys.executable, script, *argv, "--worker", backend]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, what):
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()
        # vLLM may print as well
        for line in self.process.stdout:
            if line.startswith("answer "):
                return json.loads(line[len("answer ") :])
        raise SystemExit(f"{self.backend} ended with {self.process.wait()}")

    def close(self):
        # one that ended has no pipe any more
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait(60)


def drive(args, argv, script=__file__):
    """Asks a worker for each backend, which runs `script`."""
    workers = [Worker(backend, argv, script) for backend in args.backends.split(",")]
    try:
        measure(args, workers)
    finally:
        for worker in workers:
            worker.close()


def measure(args, workers):
    file = open(args.out, "a") if args.out else None

    def say(**row):
        row = {"model": os.path.basename(args.model.rstrip("/")), **row}
        print(json.dumps(row), flush=True)
        if file:
            print(json.dumps(row), file=file, flush=True)

    # in turns: a process measures memory when it loads
    for worker in workers:
        say(backend=worker.backend, **worker.ask("load"))
    traces = ["smoke"] if args.smoke else args.traces.split(",")
    for trace in traces:
        for turn in range(args.rounds):
            first = None
            for worker in workers:
                answer = worker.ask(trace)
                rows = answer.pop("rows")
                first = rows if first is None else first
                say(backend=worker.backend, trace=trace, turn=turn, **answer, **compared(rows, first))


def compared(rows, first):
    """How many texts are those of the first backend, and where others differ: token, and by how much the first
    backend preferred its own."""
    differ = []
    for (tokens, gaps), (wanted, wanted_gaps) in zip(rows, first):
        at = next((i for i, (a, b) in enumerate(zip(tokens, wanted)) if a != b), None)
        if at is not None:
            differ.append((at, round(wanted_gaps[at], 4) if wanted_gaps else None))
    text = json.dumps([tokens for tokens, _ in rows])
    return {
        "same": f"{len(rows) - len(differ)}/{len(rows)}",
        "differ": differ[:8],
        "hash": hashlib.sha256(text.encode()).hexdigest()[:12],
    }


def wide_weights(config):
    """Weights of a model, by the names of Transformers. Activations keep their size, so that attention is not nearly
    uniform."""
    import torch
    from transformers import AutoModelForCausalLM

    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    for name, parameter in model.named_parameters():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        values = torch.empty(parameter.shape, device="cuda", dtype=torch.float32)
        if parameter.dim() < 2:
            # gains of norms are one; sinks are those that a few likely keys are worth
            yield name, values.fill_({"bias": 0.0, "sinks": 3.0}.get(name.rpartition(".")[2], 1.0))
            continue
        of_name = torch.Generator(device="cuda").manual_seed(zlib.crc32(name.encode()))
        bound = (3.0 / parameter.shape[-1]) ** 0.5
        yield name, values.uniform_(-bound, bound, generator=of_name)


class Transformers:
    """The model code of Transformers with its plain attention, which answers as vLLM's engine does."""

    def __init__(self, args):
        import torch
        from transformers import AutoConfig, AutoModelForCausalLM

        config = AutoConfig.from_pretrained(args.model)
        dtype = getattr(torch, args.dtype)
        with torch.device("cuda"):
            model = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation="eager")
        missing, unknown = model.load_state_dict(dict(wide_weights(config)), strict=False)
        model.tie_weights()
        if unknown or set(missing) - {"lm_head.weight"}:
            raise SystemExit(f"weights that the model lacks: {unknown}, that it wants: {missing}")
        self.model = model.eval()

    def generate(self, prompts, params, use_tqdm):
        return [self.answer(prompt["prompt_token_ids"], params.max_tokens) for prompt in prompts]

    def answer(self, prompt, out):
        import torch

        ids, cache, tokens, logprobs = torch.tensor([prompt], device="cuda"), None, [], []
        with torch.inference_mode():
            for _ in range(out):
                step = self.model(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
                cache = step.past_key_values
                best = step.logits[0, -1].float().log_softmax(-1).topk(2)
                tokens.append(int(best.indices[0]))
                logprobs.append({i: SimpleNamespace(logprob=value) for i, value in enumerate(best.values.tolist())})
                ids = best.indices[:1].view(1, 1)
        return SimpleNamespace(outputs=[SimpleNamespace(token_ids=tokens, logprobs=logprobs)])


def load(args, backend, **given):
    """The engine of a backend; `given` are settings of vLLM that come before those of the traces."""
    name, of_vllm, of_attn_rs = settings(backend)
    # not by `additional_config`, which makes torch compile the model again
    os.environ.update({f"ATTN_RS_{key.upper()}": value for key, value in of_attn_rs.items()})
    start = time.time()
    if name == "TRANSFORMERS":
        if not args.smoke:
            raise SystemExit("TRANSFORMERS answers with greedy tokens alone: give --smoke, or name a backend of vLLM")
        return Transformers(args), {"load_s": round(time.time() - start, 1)}
    from vllm import LLM

    if args.smoke:
        from vllm.model_executor.model_loader import dummy_loader

        def load_weights(self, model, model_config):
            model.load_weights(wide_weights(model_config.hf_config))

        dummy_loader.DummyModelLoader.load_weights = load_weights
    more = {key: value for key, value in of_vllm.items() if key == "kv_cache_dtype"}
    if "block_size" in of_vllm:
        more["block_size"] = int(of_vllm["block_size"])
    compilation = {"cudagraph_capture_sizes": [1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256]}
    if "cudagraph_mode" in of_vllm:
        compilation["cudagraph_mode"] = of_vllm["cudagraph_mode"]
    if args.layers:
        more["hf_overrides"] = {"num_hidden_layers": args.layers}
    chosen = {} if args.smoke else {t for t in args.traces.split(",") if t in ("samples", "shared")}
    settled = {
        "model": args.model,
        "dtype": args.dtype,
        "load_format": "dummy",
        "skip_tokenizer_init": True,
        "max_model_len": longest(args),
        "max_num_seqs": 256,
        "attention_config": {"backend": name},
        "compilation_config": compilation,
        "enforce_eager": "enforce_eager" in of_vllm,
        "gpu_memory_utilization": 0.3,
        "kv_cache_memory_bytes": int(float(of_vllm.get("cache_gib", args.cache_gib)) * 2**30),
        "enable_prefix_caching": bool(chosen) or args.smoke,
        "seed": 0,
        "disable_log_stats": True,
    }
    llm = LLM(**(settled | more | given))
    return llm, {"load_s": round(time.time() - start, 1)}


def timed_builds(backend):
    """Counts the host's time in builders of metadata."""
    name = backend.partition(":")[0]
    spent = [0, 0.0]
    if name in BUILDERS:
        import importlib

        module, of = BUILDERS[name]
        builder = getattr(importlib.import_module(module), of)
        build = builder.build

        def timed(*args, **kwargs):
            start = time.perf_counter()
            try:
                return build(*args, **kwargs)
            finally:
                spent[0] += 1
                spent[1] += time.perf_counter() - start

        builder.build = timed
    return spent


def run(llm, prompts, out, samples, logprobs):
    from vllm import SamplingParams

    greedy = {"temperature": 0.0} if samples == 1 else {"temperature": 1.0, "seed": 1, "n": samples}
    params = SamplingParams(max_tokens=out, ignore_eos=True, detokenize=False, logprobs=logprobs, **greedy)
    start = time.time()
    given = [{"prompt_token_ids": prompt} for prompt in prompts]
    outputs = [o for request in llm.generate(given, params, use_tqdm=False) for o in request.outputs]
    return time.time() - start, [(list(o.token_ids), gaps_of(o)) for o in outputs]


def gaps_of(output):
    """By how much each token was preferred to the next best."""
    best = [sorted((of.logprob for of in at.values()), reverse=True)[:2] for at in output.logprobs or ()]
    return [two[0] - two[-1] for two in best]


def work(args):
    answer = lambda **row: print("answer " + json.dumps(row), flush=True)  # noqa: E731
    import vllm  # noqa: F401

    spent = llm = None
    for line in sys.stdin:
        what = line.strip()
        if what == "load":
            llm, row = load(args, args.worker)
            spent = timed_builds(args.worker)
            # what is compiled at first use
            numbers = random.Random(1)
            warm = [[numbers.randrange(1000, 100000) for _ in range(n)] for n in (600, 33)]
            run(llm, warm, 4, 1, None)
            answer(**row)
            continue
        spent[:] = [0, 0.0]
        if what == "smoke":
            numbers = random.Random(3)
            ids = lambda n: [numbers.randrange(1000, 100000) for _ in range(n)]  # noqa: E731
            first = ids(SMOKE_SHARED[0])
            prompts = [*map(ids, SMOKE), *(first + ids(n) for n in SMOKE_SHARED[1])]
            # at the second time prompts are in the cache, and share pages
            (seconds, rows), (again, cached) = (run(llm, prompts, 24, 1, 2) for _ in range(2))
            seconds, rows = seconds + again, rows + cached
        else:
            seconds, rows = run(llm, *prompts_of(what), None)
        tokens = sum(len(row[0]) for row in rows)
        builds = {"builds": spent[0], "build_us": round(spent[1] / max(spent[0], 1) * 1e6, 1)}
        answer(s=round(seconds, 3), out_tok_s=round(tokens / seconds, 1), **builds, rows=rows)


if __name__ == "__main__":
    given = arguments()
    settle_environment()
    work(given) if given.worker else drive(given, sys.argv[1:])
