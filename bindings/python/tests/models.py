"""Transformers' models with random weights, small enough for a test."""

import copy

SMALL = {
    "vocab_size": 128,
    "hidden_size": 128,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
NAMES = ("llama", "gemma2", "gpt_oss", "qwen3")


def config(name, head_dim):
    import transformers

    own = {
        "llama": ("LlamaConfig", {}),
        "gemma2": ("Gemma2Config", {"sliding_window": 8, "attn_logit_softcapping": 5.0, "query_pre_attn_scalar": 16}),
        "gpt_oss": ("GptOssConfig", {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 8}),
        "qwen3": ("Qwen3Config", {}),
    }
    cls, further = own[name]
    return getattr(transformers, cls)(**SMALL, head_dim=head_dim, **further)


def pair(name, device="cpu", dtype=None, head_dim=16):
    """The same model with Transformers' own attention, and with ours."""
    import torch
    import transformers

    import attn_rs.transformers

    attn_rs.transformers.register()
    torch.manual_seed(0)
    dtype = dtype or torch.float32
    of = config(name, head_dim)
    # the experts' fused products have no float32 on every device
    further = {"experts_implementation": "eager"} if name == "gpt_oss" else {}
    models = [
        # a model keeps its config, and writes the name of the attention to it
        transformers.AutoModelForCausalLM.from_config(copy.deepcopy(of), attn_implementation=by, dtype=dtype, **further)
        for by in ("eager", "attn_rs")
    ]
    for parameter, values in models[0].named_parameters():
        if "sinks" in parameter:
            torch.nn.init.normal_(values.data)
    models[1].load_state_dict(models[0].state_dict())
    assert [model.config._attn_implementation for model in models] == ["eager", "attn_rs"]
    return [model.to(device).eval() for model in models]


def masks(ids):
    """No padding, and padding of the first row on the left and on the right."""
    import torch

    left, right = torch.ones_like(ids), torch.ones_like(ids)
    left[0, :6], right[0, -6:] = 0, 0
    return {"none": None, "left": left, "right": right}
