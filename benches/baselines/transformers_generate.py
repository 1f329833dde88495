#!/usr/bin/env python3
"""Decoding speed of Transformers' `generate` on the weights of the example `generate`.

    python3 transformers_generate.py MODEL.gguf [--batch 1 32] [--tokens 32 160] [--static] [--continuous]
    python3 transformers_generate.py llama-3.1-8b --prompt 4096 --batch 16 64 --continuous --no-eager

Reads a Llama from a GGUF file (F32, Q4_1 and Q8_0 tensors), converts it to a `LlamaForCausalLM` in f16, and prints one
JSON line for each batch size: tokens/s of decoding, from the times of two lengths of output, so that the prompt does
not count. `--static` adds the static cache with compilation, `--continuous` continuous batching (`generate_batch`),
whose rates come from the times of its tokens.
A shape's name (`llama-3.1-8b`, `smollm2-135m`) stands for random weights. Needs numpy, torch, transformers.
"""
import argparse
import importlib.util
import json
import struct
import time

import numpy as np
import torch
from transformers import ContinuousBatchingConfig, GenerationConfig, LlamaConfig, LlamaForCausalLM, StaticCache

SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


class Gguf:
    """Metadata and f32 tensors of a file."""

    def __init__(self, path):
        self.data, self.at = np.memmap(path, dtype=np.uint8, mode="r"), 4
        assert bytes(self.data[:4]) == b"GGUF", f"{path} is no GGUF file"
        _version, tensors, values = self.read("I"), self.read("Q"), self.read("Q")
        self.metadata = {self.text(): self.value(self.read("I")) for _ in range(values)}
        infos = [self.info() for _ in range(tensors)]
        self.at += -self.at % self.metadata.get("general.alignment", 32)
        self.tensors = {name: (shape, kind, self.at + offset) for name, shape, kind, offset in infos}

    def read(self, kind):
        size = struct.calcsize("<" + kind)
        (value,) = struct.unpack("<" + kind, self.data[self.at : self.at + size].tobytes())
        self.at += size
        return value

    def text(self):
        size = self.read("Q")
        self.at += size
        return self.data[self.at - size : self.at].tobytes().decode(errors="replace")

    def value(self, kind):
        if kind == 8:
            return self.text()
        if kind != 9:
            return self.read(SCALARS[kind])
        of, count = self.read("I"), self.read("Q")
        return [self.value(of) for _ in range(count)]

    def info(self):
        name, dims = self.text(), self.read("I")
        shape = [self.read("Q") for _ in range(dims)][::-1]  # the file has the innermost first
        return name, shape, self.read("I"), self.read("Q")

    def tensor(self, name):
        shape, kind, at = self.tensors[name]
        count = int(np.prod(shape))
        if kind == 0:
            return self.data[at : at + 4 * count].view(np.float32).reshape(shape)
        bytes_of = {3: 20, 8: 34}[kind]  # of a block of 32
        blocks = self.data[at : at + count // 32 * bytes_of].reshape(-1, bytes_of)
        half = lambda first: np.ascontiguousarray(blocks[:, first : first + 2]).view(np.float16).astype(np.float32)
        if kind == 8:
            values = half(0) * np.ascontiguousarray(blocks[:, 2:]).view(np.int8)
        else:
            nibbles = np.concatenate([blocks[:, 4:] & 15, blocks[:, 4:] >> 4], axis=1)
            values = half(0) * nibbles + half(2)
        return values.reshape(shape)


def halves(rows, heads):
    """Rows of llama.cpp's order (neighbouring pairs rotate) in that of Transformers (halves rotate)."""
    outputs, inputs = rows.shape
    return rows.reshape(heads, outputs // heads // 2, 2, inputs).swapaxes(1, 2).reshape(outputs, inputs)


def converted(path):
    """The configuration of a Llama of Transformers, and its f32 weights as arrays of numpy, by name."""
    gguf = Gguf(path)
    of = lambda key: gguf.metadata["llama." + key]
    heads, kv_heads = of("attention.head_count"), of("attention.head_count_kv")
    config = LlamaConfig(
        hidden_size=of("embedding_length"),
        intermediate_size=of("feed_forward_length"),
        num_hidden_layers=of("block_count"),
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        vocab_size=gguf.tensors["token_embd.weight"][0][0],
        rope_theta=of("rope.freq_base"),
        rms_norm_eps=of("attention.layer_norm_rms_epsilon"),
        max_position_embeddings=of("context_length"),
        tie_word_embeddings="output.weight" not in gguf.tensors,
        bos_token_id=gguf.metadata["tokenizer.ggml.bos_token_id"],
        eos_token_id=gguf.metadata["tokenizer.ggml.eos_token_id"],
        pad_token_id=gguf.metadata["tokenizer.ggml.eos_token_id"],
    )
    if hasattr(config, "rope_parameters"):  # Transformers 5
        config.rope_parameters = {"rope_type": "default", "rope_theta": of("rope.freq_base")}
    names = {
        "attn_q": "self_attn.q_proj",
        "attn_k": "self_attn.k_proj",
        "attn_v": "self_attn.v_proj",
        "attn_output": "self_attn.o_proj",
        "ffn_gate": "mlp.gate_proj",
        "ffn_up": "mlp.up_proj",
        "ffn_down": "mlp.down_proj",
        "attn_norm": "input_layernorm",
        "ffn_norm": "post_attention_layernorm",
    }
    state = {}
    for name in gguf.tensors:
        values = gguf.tensor(name)
        if name.startswith("blk."):
            _, layer, part, _ = name.split(".")
            order = {"attn_q": heads, "attn_k": kv_heads}.get(part)
            state[f"model.layers.{layer}.{names[part]}.weight"] = halves(values, order) if order else values
        else:
            top = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
            state[top[name.removesuffix(".weight")] + ".weight"] = values
    return config, state


def load(path):
    config, state = converted(path)
    model = LlamaForCausalLM(config)
    state = {name: torch.from_numpy(np.array(values, dtype=np.float32)) for name, values in state.items()}
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert set(missing) <= {"lm_head.weight"} and not unexpected, (missing, unexpected)
    model.tie_weights()
    return model.half().cuda().eval()


def seconds(model, ids, tokens, cache=None):
    if cache is not None:
        cache.reset()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    out = model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        do_sample=False,
        min_new_tokens=tokens,
        max_new_tokens=tokens,
        past_key_values=cache,
    )
    torch.cuda.synchronize()
    assert out.shape[1] == ids.shape[1] + tokens
    return time.perf_counter() - begin


SHAPES = {
    "llama-3.1-8b": dict(
        hidden_size=4096,
        intermediate_size=14336,
        num_hidden_layers=32,
        num_attention_heads=32,
        num_key_value_heads=8,
        vocab_size=128256,
        max_position_embeddings=131072,
        tie_word_embeddings=False,
    ),
    "smollm2-135m": dict(
        hidden_size=576,
        intermediate_size=1536,
        num_hidden_layers=30,
        num_attention_heads=9,
        num_key_value_heads=3,
        vocab_size=49152,
        max_position_embeddings=8192,
        tie_word_embeddings=True,
    ),
}


def made_up(shape):
    with torch.device("cuda"):
        torch.set_default_dtype(torch.float16)
        model = LlamaForCausalLM(LlamaConfig(**SHAPES[shape], rms_norm_eps=1e-5, eos_token_id=2, pad_token_id=2))
        torch.set_default_dtype(torch.float32)
    return model.eval()


def continuous_rates(model, ids, tokens):
    """Tokens/s while all requests decode, and of the whole run with its prompts, by the times of the tokens."""
    config = GenerationConfig(max_new_tokens=tokens, do_sample=False, eos_token_id=-1, pad_token_id=2)
    # prompts recur, and their blocks are not to be found again
    batching = ContinuousBatchingConfig(allow_block_sharing=False)
    out = model.generate_batch(ids.tolist(), config, batching, record_timestamps=True, persistent_manager=True)
    times = [one.timestamps for one in out.values()]
    assert len(times) == ids.shape[0] and all(len(one) == tokens for one in times), [len(one) for one in times]
    begin, end = max(one[0] for one in times), min(one[-1] for one in times)
    decoded = sum(begin < at <= end for one in times for at in one)
    whole = max(one[-1] for one in times) - min(one.created_time for one in out.values())
    return decoded / (end - begin), ids.shape[0] * tokens / whole


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("model")
    arguments.add_argument("--batch", type=int, nargs="+", default=[1, 32])
    arguments.add_argument("--tokens", type=int, nargs=2, default=[32, 160])
    arguments.add_argument("--truth", help="prints the continuation of its first prompt beside the truth's")
    arguments.add_argument("--static", action="store_true")
    arguments.add_argument("--continuous", action="store_true")
    arguments.add_argument("--no-eager", action="store_true")
    arguments.add_argument("--prompt", type=int, default=16)
    options = arguments.parse_args()
    model = made_up(options.model) if options.model in SHAPES else load(options.model)
    if options.truth:
        prompt = json.load(open(options.truth))["prompts"][0]
        ids = torch.tensor([prompt["ids"]], device="cuda")
        out = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=32)
        same = sum(a == b[0] for a, b in zip(out[0, ids.shape[1] :].tolist(), prompt["greedy"]))
        print(json.dumps({"truth": f"{same} of 32 tokens are the same"}), flush=True)
    few, many = options.tokens
    for name in ["eager"] * (not options.no_eager) + ["static"] * options.static:
        for batch in options.batch:
            seed = torch.Generator("cuda").manual_seed(1)
            ids = torch.randint(100, 40000, (batch, options.prompt), device="cuda", generator=seed)
            # one cache for both lengths, so that one model is compiled
            length = options.prompt + many
            cache = StaticCache(config=model.config, max_cache_len=length) if name == "static" else None
            seconds(model, ids, few, cache)  # warms up, and compiles
            best = min(seconds(model, ids, many, cache) - seconds(model, ids, few, cache) for _ in range(2))
            rate = batch * (many - few) / best
            line = {"peer": f"transformers {name}", "batch": batch, "tokens_per_s": round(rate, 1)}
            print(json.dumps(line), flush=True)
    if not options.continuous:
        return
    # a kernel from a hub cannot be fetched on a machine without network
    flash = importlib.util.find_spec("flash_attn") is not None
    model.set_attn_implementation("paged|flash_attention_2" if flash else "paged|sdpa")
    for batch in options.batch:
        seed = torch.Generator("cuda").manual_seed(1)
        ids = torch.randint(100, 40000, (batch, options.prompt), device="cuda", generator=seed)
        continuous_rates(model, ids, many)  # warms up, and captures graphs
        decode, whole = continuous_rates(model, ids, many)
        line = {
            "peer": "transformers continuous batching",
            "attention": model.config._attn_implementation,
            "batch": batch,
            "prompt": options.prompt,
            "tokens_per_s": round(decode, 1),
            "with_prompts_tokens_per_s": round(whole, 1),
        }
        print(json.dumps(line), flush=True)
        model.destroy_cached_continuous_batching_manager()


if __name__ == "__main__":
    main()
