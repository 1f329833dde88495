"""Greedy tokens in vLLM of tiny models with random weights, whose attention is that of known ones, on attn-rs beside
the model code of Transformers: a line of JSON for each model and backend, as `traces.py --smoke` prints it.

    tiny_models.py --dir DIR [--models llama-64,qwen3] [--dtype bfloat16 --backends FLASH_ATTN,CUSTOM]

Configurations are written to DIR. Weights depend on their names alone, so that all backends have the same. In f32 near
ties of the two likeliest tokens are rare; in bf16 its last place, 0.03 of a logit, makes other texts of equal ones. The
experts of gpt-oss are a dense layer here, which needs no kernels for experts.
"""

import argparse
import json
import os
import sys

import traces

COMMON = {
    "hidden_size": 1024,
    "intermediate_size": 2816,
    "num_hidden_layers": 4,
    "vocab_size": 100352,
    "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
    "torch_dtype": "bfloat16",
    "bos_token_id": 1,
    "eos_token_id": 2,
    "tie_word_embeddings": False,
}
#: what of each differs: heads, windows, caps, sinks
MODELS = {
    "llama-64": {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "num_attention_heads": 16,
        "num_key_value_heads": 4,
        "head_dim": 64,
        "rope_theta": 500000.0,
    },
    "qwen3": {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "rope_theta": 1000000.0,
    },
    # the cap is a tenth of Gemma's, so that random queries come near it
    "gemma-2": {
        "architectures": ["Gemma2ForCausalLM"],
        "model_type": "gemma2",
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "query_pre_attn_scalar": 256,
        "sliding_window": 512,
        "attn_logit_softcapping": 5.0,
        "final_logit_softcapping": 30.0,
        "hidden_activation": "gelu_pytorch_tanh",
        "rope_theta": 10000.0,
        "tie_word_embeddings": True,
    },
    "gpt-oss": {
        "architectures": ["GptOssForCausalLM"],
        "model_type": "gpt_oss",
        "num_attention_heads": 32,
        "num_key_value_heads": 4,
        "head_dim": 64,
        "sliding_window": 128,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
        "max_position_embeddings": 131072,
        "attention_bias": True,
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "rope_theta": 150000.0,
        "rope_scaling": {
            "rope_type": "yarn",
            "factor": 32.0,
            "beta_fast": 32.0,
            "beta_slow": 1.0,
            "original_max_position_embeddings": 4096,
            "truncate": False,
        },
    },
}


def write(directory, name):
    """The folder of a model, with its configuration."""
    folder = os.path.join(directory, name)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(COMMON | MODELS[name], file, indent=1)
    return folder


def without_experts():
    """Gives the layers of gpt-oss, of vLLM and of Transformers, a dense layer in place of experts."""
    import torch
    from transformers.models.gpt_oss import modeling_gpt_oss
    from vllm.model_executor.models import gpt_oss

    class Dense(torch.nn.Module):
        def __init__(self, size):
            super().__init__()
            self.dense = torch.nn.Linear(size, size, bias=False)

        def forward(self, x):
            return torch.nn.functional.silu(self.dense(x))

    class OfVllm(Dense):
        def __init__(self, vllm_config, layer_idx, prefix=""):
            super().__init__(vllm_config.model_config.hf_config.hidden_size)

    class OfTransformers(Dense):
        def __init__(self, config):
            super().__init__(config.hidden_size)

        def forward(self, x):
            return super().forward(x), None

    gpt_oss.TransformerBlock.mlp_cls = OfVllm
    modeling_gpt_oss.GptOssMLP = OfTransformers


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dir", required=True)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--backends", default="TRANSFORMERS,CUSTOM")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--out")
    args = parser.parse_args()
    failed = []
    for name in args.models.split(","):
        argv = ["--smoke", "--cache-gib", "4", "--model", write(args.dir, name)]
        argv += ["--backends", args.backends, "--dtype", args.dtype]
        argv += ["--out", args.out] if args.out else []
        try:
            traces.drive(traces.arguments(argv), argv, __file__)
        except SystemExit as error:
            failed.append(name)
            print(json.dumps({"model": name, "failed": str(error)}), flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    traces.settle_environment()
    if "--worker" in sys.argv:
        given = traces.arguments()
        if "gpt-oss" in given.model:
            without_experts()
        traces.work(given)
    else:
        main()
