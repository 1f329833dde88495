"""Greedy tokens of SmolLM2-135M-Instruct in vLLM on attn-rs, beside those of a plain forward pass of other code.

    smollm2.py MODEL.gguf TRUTH.json DIR [--reader transformers_generate.py] [--dtype float32]

Weights of the GGUF file are written to DIR as safetensors in `--dtype`. TRUTH has token ids of prompts, and greedy
tokens with their logits and margins to the second. A text may differ first only where the margin is below a bound:
rounding may turn such a token, and what follows is another text.
"""

import argparse
import importlib.util
import json
import os
import sys
from pathlib import Path

import traces

#: logits are about 20; these are several times the error of a forward pass of 30 layers
BOUNDS = {"float32": 0.01, "float16": 0.1, "bfloat16": 0.7}
READER = Path(__file__).resolve().parents[3] / "benches/baselines/transformers_generate.py"


def convert(gguf, folder, dtype, reader):
    """Writes `config.json` and `model.safetensors`."""
    import torch
    from safetensors.torch import save_file

    spec = importlib.util.spec_from_file_location("transformers_generate", reader)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    config, state = module.converted(gguf)
    config.architectures = ["LlamaForCausalLM"]
    os.makedirs(folder, exist_ok=True)
    config.save_pretrained(folder)
    to = lambda values: torch.tensor(values).to(getattr(torch, dtype)).contiguous()  # noqa: E731
    save_file({name: to(values) for name, values in state.items()}, os.path.join(folder, "model.safetensors"))


def generate(folder, prompts, out, dtype, backend):
    from vllm import LLM, SamplingParams

    llm = LLM(
        model=folder,
        dtype=dtype,
        skip_tokenizer_init=True,
        max_model_len=512,
        max_num_seqs=16,
        attention_config={"backend": backend},
        gpu_memory_utilization=0.3,
        kv_cache_memory_bytes=2**30,
        disable_log_stats=True,
    )
    params = SamplingParams(max_tokens=out, temperature=0.0, ignore_eos=True, detokenize=False)
    outputs = llm.generate([{"prompt_token_ids": ids} for ids in prompts], params, use_tqdm=False)
    return [list(output.outputs[0].token_ids) for output in outputs]


def compared(tokens, greedy, bound):
    """Where a text first differs from the truth, if it does, the margin there, and whether that may be."""
    at = next((i for i, (token, wanted) in enumerate(zip(tokens, greedy, strict=True)) if token != wanted[0]), None)
    if at is None:
        return {"equal": len(tokens), "allowed": True}
    margin = greedy[at][2]
    return {"equal": at, "margin": round(margin, 4), "allowed": margin < bound}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gguf")
    parser.add_argument("truth")
    parser.add_argument("dir")
    parser.add_argument("--reader", default=READER)
    parser.add_argument("--dtype", default="float32", choices=BOUNDS)
    parser.add_argument("--backend", default="CUSTOM")
    args = parser.parse_args()
    with open(args.truth) as file:
        prompts = json.load(file)["prompts"]
    convert(args.gguf, args.dir, args.dtype, args.reader)
    rows = generate(args.dir, [of["ids"] for of in prompts], len(prompts[0]["greedy"]), args.dtype, args.backend)
    bound, allowed = BOUNDS[args.dtype], True
    for tokens, of in zip(rows, prompts, strict=True):
        row = compared(tokens, of["greedy"], bound)
        allowed &= row["allowed"]
        print(json.dumps({"prompt": of["prompt"][:40], "of": len(of["greedy"]), "bound": bound} | row), flush=True)
    sys.exit(0 if allowed else 1)


if __name__ == "__main__":
    traces.settle_environment()
    main()
