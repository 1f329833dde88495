#!/usr/bin/env python3
"""What the classes of Hugging Face's transformers make of configurations, for `tests/models/classes.rs`.

    python3 make_models.py OUT.jsonl        needs torch and transformers; a CPU is enough

Nothing is derived here. Each configuration goes to its class, the class to its model, and the model runs two tokens
after 9000 others: masks, scale, soft cap, sinks and the rows of queries and keys are what its attention is called with,
frequencies are those of its rotary module. Projections give fixed rows instead of products with weights, and MLPs give
zeros, so that models of any size run at once.

A line is a base, `{"base": NAME, "config": ..}`, frequencies, `{"inv_freq": ..}`, a kind of layers, `{"kind": ..}`, or
a case: `base`, with fields `set` and `removed` (`text_config.NAME` for one within). Its `want` is `[heads, layers,
kinds]`: query heads, KV heads and head dim; for each layer an index of `kinds`; the numbers of the lines of kinds. A
kind is the first and the last key that query 20000 of 41000 attends to (null for all on that side), the scale of
logits, the cap, whether there is a sink, the number of the line of frequencies (null without), their factor, and two
products each of the query's and the key's row with fixed vectors. `refused` in place of `want` is a name that the
refusal has: of a field whose value the class takes not (`raises`), or that our reader does not follow (`because`).
"""

import copy, json, logging, sys, warnings

import torch, transformers
from transformers import AutoModel
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

warnings.simplefilter("ignore")
logging.disable(logging.WARNING)
PAST, QUERY, KEYS = 9000, 20000, 41000

calls = []


def attend(module, query, key, value, mask, scaling=None, softcap=None, s_aux=None, **_):
    calls.append((query, key, mask, scaling, softcap, s_aux is not None))
    # it has the last word on what goes together
    eager = sys.modules[type(module).__module__].eager_attention_forward
    return eager(module, query, key, value, None, scaling=scaling)


def masked(mask_function=None, **_):
    zero = torch.zeros((), dtype=torch.long)
    keys = torch.arange(KEYS)
    kept = mask_function(zero, zero, torch.full((KEYS,), QUERY), keys)
    kept = torch.as_tensor(kept).expand(KEYS).nonzero()[:, 0].tolist()
    assert kept == list(range(kept[0], kept[-1] + 1)), "an interval of keys"
    return [kept[0], kept[-1]]


ALL_ATTENTION_FUNCTIONS.register("recorded", attend)
ALL_MASK_ATTENTION_FUNCTIONS.register("recorded", masked)


class Rows(torch.nn.Module):
    """A projection whose every head is the same fixed row."""

    def __init__(self, width, head_dim, row):
        super().__init__()
        self.width, self.row = width, row(torch.arange(head_dim, dtype=torch.float64)).to(torch.float32)

    def forward(self, x):
        return self.row.repeat(self.width // len(self.row)).expand(*x.shape[:-1], -1)


class Zeros(torch.nn.Module):
    def __init__(self, pair=False):
        super().__init__()
        self.pair = pair

    def forward(self, x):
        zeros = torch.zeros_like(x)
        return (zeros, None) if self.pair else zeros


class Past:
    """A cache of `PAST` tokens that keeps nothing."""

    is_compileable = False

    def get_seq_length(self, layer_idx=0):
        return PAST

    def get_query_offset(self, layer_idx=0):
        return PAST

    def get_mask_sizes(self, query_length, layer_idx):
        return PAST + query_length, 0

    def update(self, k, v, *_, **__):
        return k, v


def light(model, config):
    """The model with projections and MLPs that cost nothing."""
    q_row, k_row = (lambda d: (0.7 * d).sin()), (lambda d: (0.3 * d + 1).cos())
    for layer in model.layers:
        attention = layer.self_attn
        for name, row in (("q_proj", q_row), ("k_proj", k_row), ("v_proj", q_row)):
            width = getattr(attention, name).out_features
            setattr(attention, name, Rows(width, attention.head_dim, row))
        attention.o_proj = torch.nn.Identity()
        attention.o_proj.forward = lambda x: torch.zeros(*x.shape[:-1], config.hidden_size)
        for name in ("q_norm", "k_norm"):
            if norm := getattr(attention, name, None):
                d = torch.arange(len(norm.weight))
                weight = 0.5 + (d % 7) / 10 if name == "q_norm" else 1.5 - (d % 5) / 10
                norm.weight = torch.nn.Parameter(weight)
        if hasattr(attention, "sinks"):
            attention.sinks = torch.nn.Parameter(torch.zeros(len(attention.sinks)))
        for name in ("mlp", "feed_forward"):
            if mlp := getattr(layer, name, None):
                pair = "MoE" in type(mlp).__name__ or "Moe" in type(mlp).__name__ or config.model_type == "gpt_oss"
                setattr(layer, name, Zeros(pair))
        for name, part in list(layer.named_children()):
            if "layernorm" in name:
                setattr(layer, name, torch.nn.Identity())
    model.norm = torch.nn.Identity()
    model.rotary_emb = type(model.rotary_emb)(config=config)
    return model.eval()


tables, kinds_of_layers = {}, {}


def table(inv_freq):
    return tables.setdefault(tuple(float(f"{x:.8g}") for x in inv_freq.tolist()), len(tables))


def digest(row):
    d = torch.arange(len(row), dtype=torch.float64)
    products = [(row.double() * w).sum().item() for w in ((1.3 * d + 0.2).sin(), (2.1 * d).cos())]
    return [round(x, 4) for x in products]


def read(config):
    """`want` of a configuration; raises what its class raises."""
    config = copy.deepcopy(config)
    whole = CONFIG_MAPPING[config.pop("model_type")](**config)
    config = whole.get_text_config()
    config._attn_implementation = "recorded"
    layers = config.num_hidden_layers
    with torch.device("meta"):
        model = AutoModel.from_config(config)
    light(model, config)
    calls.clear()
    tokens = torch.zeros(1, 2, config.hidden_size)
    run = lambda mask: model(inputs_embeds=tokens, past_key_values=Past(), attention_mask=mask, use_cache=True)
    with torch.no_grad():
        try:
            run(None)
        except ValueError as error:
            # a window or chunk of None: the attention has none, and its masks are the caller's
            if "Could not find a" not in str(error) or config.model_type == "qwen3":
                raise
            calls.clear()
            run({kind: [0, QUERY] for kind in set(config.layer_types)})
    assert len(calls) == layers
    kinds, of_layers = [], []
    types = getattr(config, "layer_types", None) or [None] * layers
    for i, (query, key, mask, scaling, cap, sink) in enumerate(calls):
        rope = model.rotary_emb
        rotated = getattr(model.layers[i].self_attn, "use_rope", True)
        name, factor = ("inv_freq", "attention_scaling")
        if not hasattr(rope, name):
            name, factor = f"{types[i]}_inv_freq", f"{types[i]}_attention_scaling"
        seen = [
            mask[0] or None,
            mask[1] if mask[1] < KEYS - 1 else None,
            float(f"{scaling:.7g}"),
            cap,
            sink,
            table(getattr(rope, name)) if rotated else None,
            float(f"{getattr(rope, factor):.7g}") if rotated else 1.0,
            *digest(query[0, 0, 0]),
            *digest(key[0, 0, 0]),
        ]
        kind = kinds_of_layers.setdefault(tuple(seen), len(kinds_of_layers))
        if kind not in kinds:
            kinds.append(kind)
        of_layers.append(kinds.index(kind))
    query, key = calls[0][:2]
    return [[query.shape[1], key.shape[1], query.shape[-1]], "".join(map(str, of_layers)), kinds]


# irrelevant to attention, and as in public files
NOTES = {"architectures": ["X"], "vocab_size": 64, "torch_dtype": "bfloat16", "intermediate_size": 64}
NOTES["use_cache"] = True
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
SIX = {"num_hidden_layers": 6}

# public shapes, with fewer layers
BASES = {
    "llama": {
        "model_type": "llama",
        "hidden_size": 3072,
        "num_attention_heads": 24,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "num_hidden_layers": 2,
        "max_position_embeddings": 131072,
        "rms_norm_eps": 1e-05,
        "attention_bias": False,
        "rope_theta": 500000.0,
        "rope_scaling": LLAMA3 | {"factor": 32.0},
    },
    "mistral": {
        "model_type": "mistral",
        "hidden_size": 5120,
        "num_attention_heads": 32,
        "num_key_value_heads": 4,
        "head_dim": 128,
        "num_hidden_layers": 2,
        "max_position_embeddings": 1024000,
        "rms_norm_eps": 1e-05,
        "rope_theta": 1000000.0,
        "sliding_window": None,
    },
    "qwen3": {
        "model_type": "qwen3",
        "hidden_size": 1024,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 64,
        "num_hidden_layers": 5,
        "max_position_embeddings": 40960,
        "rms_norm_eps": 1e-05,
        "rope_theta": 1000000,
        "rope_scaling": None,
        "use_sliding_window": True,
        "sliding_window": 512,
        "max_window_layers": 3,
    },
    "gemma2": {
        "model_type": "gemma2",
        "hidden_size": 4608,
        "num_attention_heads": 32,
        "num_key_value_heads": 16,
        "head_dim": 128,
        "num_hidden_layers": 3,
        "max_position_embeddings": 4096,
        "rms_norm_eps": 1e-05,
        "rope_theta": 20000.0,
        "query_pre_attn_scalar": 144,
        "sliding_window": 1024,
        "attn_logit_softcapping": 30.0,
        "final_logit_softcapping": 30.0,
        "layer_types": ["full_attention", "sliding_attention", "full_attention"],
    },
    "gemma3_text": {
        "model_type": "gemma3_text",
        "hidden_size": 640,
        "num_attention_heads": 4,
        "num_key_value_heads": 1,
        "head_dim": 128,
        "num_hidden_layers": 7,
        "max_position_embeddings": 32768,
        "rms_norm_eps": 1e-05,
        "query_pre_attn_scalar": 144,
        "sliding_window": 512,
        "sliding_window_pattern": 3,
        "rope_theta": 2000000.0,
        "rope_local_base_freq": 20000.0,
        "rope_scaling": {"rope_type": "linear", "factor": 8.0},
        "attn_logit_softcapping": None,
        "use_bidirectional_attention": False,
    },
    "gpt_oss": {
        "model_type": "gpt_oss",
        "hidden_size": 2880,
        "num_attention_heads": 32,
        "num_key_value_heads": 4,
        "head_dim": 32,
        "num_hidden_layers": 3,
        "max_position_embeddings": 8192,
        "rms_norm_eps": 1e-05,
        "num_local_experts": 2,
        "rope_theta": 100000.0,
        "rope_scaling": YARN | {"truncate": False, "beta_fast": 16.0, "beta_slow": 2.0},
        "sliding_window": 256,
        "layer_types": ["full_attention", "sliding_attention", "sliding_attention"],
    },
    "llama4_text": {
        "model_type": "llama4_text",
        "hidden_size": 2560,
        "num_attention_heads": 20,
        "num_key_value_heads": 4,
        "head_dim": 64,
        "num_hidden_layers": 5,
        "max_position_embeddings": 65536,
        "rms_norm_eps": 1e-06,
        "num_local_experts": 2,
        "rope_theta": 400000.0,
        "rope_scaling": LLAMA3 | {"factor": 16.0, "high_freq_factor": 1.0},
        "use_qk_norm": True,
        "no_rope_layers": [1, 0, 1, 1, 0],
        "no_rope_layer_interval": 3,
        "attention_chunk_size": 4096,
        "attn_temperature_tuning": True,
        "floor_scale": 2048,
        "attn_scale": 0.2,
    },
    "gemma3": {
        "model_type": "gemma3",
        "mm_tokens_per_image": 256,
        "text_config": {
            "model_type": "gemma3_text",
            "hidden_size": 3840,
            "num_attention_heads": 16,
            "num_key_value_heads": 8,
            "num_hidden_layers": 7,
            "rope_scaling": {"rope_type": "linear", "factor": 8.0},
            "sliding_window": 1024,
        },
        "vision_config": {"num_hidden_layers": 2},
    },
    "llama4": {
        "model_type": "llama4",
        "text_config": {
            "model_type": "llama4_text",
            "num_hidden_layers": 4,
            "num_local_experts": 2,
            "no_rope_layers": [],
            "rope_theta": 500000.0,
            "rope_scaling": LLAMA3 | {"factor": 16.0, "high_freq_factor": 1.0},
        },
        "vision_config": {"num_hidden_layers": 2},
    },
}
for base in BASES.values():
    (base.get("text_config") or base).update(NOTES)
# for forms of rotary embeddings
for name in ("llama", "mistral", "qwen3", "gemma2", "gemma3_text", "gpt_oss", "llama4_text"):
    plain = {k: v for k, v in BASES[name].items() if not k.startswith("rope_") and k not in NOTES}
    small = {"hidden_size": 256, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32}
    BASES[f"{name} without rope"] = plain | small | {"max_position_embeddings": 65536}

lines, seen, wrong = [], set(), []


def changed(base, change, removed):
    config = copy.deepcopy(BASES[base]) if base else {}
    for name in removed:
        inner, name = (config["text_config"], name[12:]) if name.startswith("text_config.") else (config, name)
        del inner[name]
    for name, value in change.items():
        inner, name = (config["text_config"], name[12:]) if name.startswith("text_config.") else (config, name)
        inner[name] = value
    return config


def case(base, change=None, removed=(), raises=None, refused=None, because=None):
    change = change or {}
    line = {"base": base, "set": change, "removed": list(removed)}
    key = json.dumps(line, sort_keys=True)
    if key in seen:
        return
    seen.add(key)
    line = {name: part for name, part in line.items() if part}
    config = changed(base, change, removed)
    try:
        want, error = read(config), None
    except Exception as e:
        want, error = None, f"{type(e).__name__}: {e}"
    if because:
        line |= {"refused": refused, "because": because + ("" if want else f" ({error.splitlines()[0]})")}
    elif raises:
        if want:
            wrong.append(f"{line} runs")
            return
        line |= {"refused": raises, "raises": error.splitlines()[0][:60]}
    else:
        if not want:
            wrong.append(f"{line}: {error}")
            return
        line["want"] = want
    lines.append(line)


def runs(config):
    try:
        read(config)
        return True
    except Exception:
        return False


def raises_or_runs(base, name, change=None, removed=()):
    case(base, change, removed, raises=None if runs(changed(base, change or {}, removed)) else name)


# a default that the rest of a base does not go with, by what the refusal names
AGAINST = {
    ("llama", "hidden_size"): "hidden_size",
    ("qwen3", "num_key_value_heads"): "num_key_value_heads",
    ("gemma2", "num_attention_heads"): "num_key_value_heads",
    ("llama4_text", "num_key_value_heads"): "num_key_value_heads",
    ("gemma2", "num_hidden_layers"): "layer_types",
    ("gpt_oss", "num_hidden_layers"): "layer_types",
    ("llama4_text", "num_hidden_layers"): "no_rope_layers",
}


# the class alone
for model_type in ("gemma2", "gemma3", "gemma3_text", "gpt_oss", "llama", "llama4", "llama4_text", "mistral", "qwen3"):
    case(None, {"model_type": model_type})
for base in list(BASES):
    case(base)
    if " without" in base:
        continue
    # as the class saves it
    config = changed(base, {}, ())
    saved = CONFIG_MAPPING[config.pop("model_type")](**config).to_dict()
    saved = json.loads(json.dumps(saved, default=str))
    case(None, saved)
    prefix, fields = ("text_config.", BASES[base]["text_config"]) if "text_config" in BASES[base] else ("", BASES[base])
    # what a class refuses for its type, and attention does not read
    without_norm = ["rms_norm_eps"] if base in ("llama", "mistral", "gemma2", "gpt_oss") else []
    for field in fields:
        if field in NOTES or field == "num_local_experts":
            continue
        # without the field, and with null
        if (prefix, field) != ("", "model_type"):
            case(base, removed=[prefix + field], raises=AGAINST.get((base, field)))
            if field not in ("model_type", "max_position_embeddings", "attention_bias", *without_norm):
                raises_or_runs(base, field, {prefix + field: None})
    # fields that no base has
    for field in ("head_dim", "is_causal", "layer_types", "rope_parameters", "rope_scaling", "num_key_value_heads"):
        raises_or_runs(base, field, {prefix + field: None})
    case(base, {prefix + "is_causal": False})
    case(base, {prefix + "is_causal": True})
for base in ("gemma3", "llama4"):
    case(base, {"text_config": None})
    case(base, removed=["text_config"])
    case(base, {"is_causal": False}, refused="is_causal", because="the class ignores it, other engines do not")

# windows, chunks and kinds of layers
case("mistral", {"sliding_window": 100})
case("mistral", {"sliding_window": 100, "is_causal": False})
case("qwen3", {"max_window_layers": 0})
case("qwen3", {"max_window_layers": 9})
case("qwen3", {"use_sliding_window": False})
case("qwen3", {"use_sliding_window": False, "layer_types": ["sliding_attention"] * 5}, raises="use_sliding_window")
case("qwen3", {"layer_types": ["sliding_attention", "full_attention"] * 2 + ["sliding_attention"]})
for base, layers in (("gemma2", 3), ("gemma3_text", 7), ("gpt_oss", 3), ("qwen3", 5)):
    case(base, {"layer_types": ["full_attention"] * layers})
    case(base, {"layer_types": ["sliding_attention"] * layers})
    case(base, {"layer_types": ["chunked_attention"] * layers}, raises="layer_types")
    case(base, {"layer_types": ["full_attention"] * (layers + 1)}, raises="layer_types")
case("llama4_text", {"layer_types": ["full_attention"] * 5})
case("llama4_text", {"layer_types": ["chunked_attention"] * 5})
case("llama4_text", {"layer_types": ["sliding_attention"] * 5}, raises="layer_types")
case("llama4_text", {"no_rope_layers": []})
case("llama4_text", {"no_rope_layers": [1] * 4}, raises="no_rope_layers")
case("llama4_text", {"no_rope_layer_interval": 2}, removed=["no_rope_layers"])
case("llama4_text", {"no_rope_layers": [], "attn_temperature_tuning": False, "use_qk_norm": False})
for pattern in (1, 2, 6, 9):
    case("gemma3_text", {"sliding_window_pattern": pattern})
case("gemma3_text", {"sliding_window_pattern": 0}, raises="sliding_window_pattern")
case("gemma3_text", {"use_bidirectional_attention": True})
case("gemma3_text", {"use_bidirectional_attention": True, "sliding_window": 511})
case("gemma3_text", {"use_bidirectional_attention": True, "is_causal": False})
case("gemma3_text", {"use_bidirectional_attention": True, "sliding_window": None}, raises="sliding_window")
case("gemma2", {"query_pre_attn_scalar": 224, "attn_logit_softcapping": None})
# heads
case("llama", {"hidden_size": 3073}, raises="hidden_size")
case("gemma2", {"hidden_size": 4609}, raises="hidden_size")
case("mistral", {"hidden_size": 5121}, removed=["head_dim"])
case("llama", {"num_key_value_heads": 24})
case("mistral", {"num_key_value_heads": 1})

# rotary embeddings
flat = ("llama", "mistral", "qwen3", "gemma2", "gpt_oss", "llama4_text")
linear = {"rope_type": "linear", "factor": 4.0}
forms = [
    {},
    {"rope_type": "default"},
    {"rope_theta": 30000.0},
    linear,
    {"type": "linear", "factor": 4},
    {"rope_type": "linear", "type": "dynamic", "factor": 4.0},
    LLAMA3,
    LLAMA3 | {"low_freq_factor": 1.0, "high_freq_factor": 1.0},
    {k: v for k, v in LLAMA3.items() if k != "original_max_position_embeddings"},
    YARN,
    YARN | {"type": "yarn"},
    YARN | {"factor": 1.0},
    YARN | {"factor": None},
    YARN | {"attention_factor": 0.8},
    YARN | {"attention_factor": 1.0},
    YARN | {"attention_factor": 1.5},
    YARN | {"attention_factor": None},
    YARN | {"factor": 1.0, "attention_factor": 1.2},
    YARN | {"factor": 1.0, "attention_factor": 0.7},
    YARN | {"factor": 1.001, "attention_factor": 1.2},
    YARN | {"mscale": 2.0},
    YARN | {"mscale_all_dim": 2.0},
    YARN | {"mscale": 0.707, "mscale_all_dim": 1.0},
    YARN | {"mscale": 1.0, "mscale_all_dim": 0.707},
    YARN | {"mscale": 1.0, "mscale_all_dim": 1.0},
    YARN | {"mscale": 1.0, "mscale_all_dim": 0},
    YARN | {"beta_fast": 8, "beta_slow": 2},
    YARN | {"beta_fast": None, "beta_slow": 0},
    YARN | {"truncate": False},
    YARN | {"truncate": None},
    YARN | {"beta_fast": 4.0, "beta_slow": 4.0},
    {k: v for k, v in YARN.items() if k != "original_max_position_embeddings"},
    {"rope_type": "proportional", "partial_rotary_factor": 0.25},
    {"rope_type": "proportional", "partial_rotary_factor": 0.5, "factor": 2.0},
    {"rope_type": "proportional"},
]
for n, form in enumerate(forms):
    for i, model_type in enumerate(flat):
        base = f"{model_type} without rope"
        # every form for one family, and two of them for the others
        if model_type != "llama" and n % 3 != i % 3 and form != YARN:
            continue
        case(base, {"rope_scaling": form})
        case(base, {"rope_theta": 300000.0, "rope_scaling": form})
        case(base, {"rope_parameters": form | {"rope_theta": 700000.0}})
        if "rope_theta" not in form and n % 4 == 0:
            case(base, {"rope_theta": 300000.0, "rope_parameters": form})
            case(base, {"rope_theta": 300000.0, "rope_parameters": form | {"rope_theta": 700000.0}})
    # a form for the kinds of layers each
    if not ({"truncate"} & form.keys()):
        kinds = {"full_attention": form | {"rope_theta": 700000.0}, "sliding_attention": {"rope_type": "default"}}
        base = "gemma3_text without rope"
        case(base, {"rope_parameters": kinds})
        if n % 4 == 3:
            case(base, {"rope_scaling": form, "rope_theta": 300000.0, "rope_local_base_freq": 5000.0})
            swapped = {"full_attention": None, "sliding_attention": form}
            case(base, {"rope_parameters": swapped, "rope_theta": 300000.0, "rope_local_base_freq": 5000.0})
            case(base, {"rope_parameters": {"full_attention": form}})
for base in ("llama without rope", "gpt_oss without rope", "gemma3_text without rope"):
    case(base, {"rope_scaling": {}, "rope_parameters": None})
for base in ("llama without rope", "mistral without rope"):
    outside = {"rope_scaling": LLAMA3, "original_max_position_embeddings": 4096}
    case(base, outside)
    case(base, {"rope_scaling": YARN, "original_max_position_embeddings": 4096})
    change = {"rope_scaling": YARN, "original_max_position_embeddings": None}
    case(base, change, raises="original_max_position_embeddings")
case("gemma3_text without rope", {"rope_scaling": YARN, "original_max_position_embeddings": 4096})
short = {k: v for k, v in LLAMA3.items() if k != "original_max_position_embeddings"}
change = {"rope_scaling": short, "max_position_embeddings": None}
case("llama without rope", change, raises="max_position_embeddings")
case("llama without rope", {"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, raises="low_freq_factor")
for field, value in (("low_freq_factor", None), ("high_freq_factor", None), ("factor", None), ("rope_theta", None)):
    case("llama without rope", {"rope_scaling": LLAMA3 | {field: value}}, raises=field)
case("llama without rope", {"rope_scaling": {"rope_type": "linear"}}, raises="factor")
case("llama without rope", {"rope_scaling": {"rope_type": "yarn"}}, raises="factor")
case("llama without rope", {"rope_scaling": {"rope_type": None}}, raises="rope_type")
case("llama without rope", {"rope_scaling": {"rope_type": "su"}}, raises="rope_type")
case("llama without rope", {"rope_scaling": [1]}, raises="rope_scaling")
case("llama without rope", {"rope_theta": None}, raises="rope_theta")
case("gemma3_text without rope", {"rope_parameters": linear}, raises="rope_parameters")
nested = {"full_attention": {"rope_type": "default", "rope_theta": 1e4}, "sliding_attention": {"rope_type": "default"}}
for model_type in ("gemma2", "gpt_oss", "qwen3"):
    case(f"{model_type} without rope", {"rope_parameters": nested}, raises="full_attention")

# what the class runs and our reader refuses
because = "frequencies change with the length of the text"
case("llama without rope", {"rope_scaling": linear | {"rope_type": "dynamic"}}, refused="rope_type", because=because)
long = {"rope_type": "longrope", "short_factor": [1.0] * 16, "long_factor": [2.0] * 16, "factor": 4.0}
case("llama without rope", {"rope_scaling": long}, refused="rope_type", because=because)
because = "the class ignores it, other engines do not"
case("llama without rope", {"rope_parameters": nested}, refused="full_attention", because=because)
case("llama without rope", {"rope_scaling": linear | {"beta_fast": 32.0}}, refused="beta_fast", because=because)
case("llama without rope", {"partial_rotary_factor": 0.5}, refused="partial_rotary_factor", because=because)
case("gemma3_text without rope", {"rope_scaling": {"type": "linear", "factor": 4.0}}, refused="type", because=because)
case("gemma3_text", {"attn_logit_softcapping": 50.0}, refused="attn_logit_softcapping", because=because)
yarns = {"full_attention": YARN | {"truncate": False}}
case("gemma3_text without rope", {"rope_parameters": yarns}, refused="truncate", because=because)
both = {"rope_scaling": linear, "rope_parameters": {"rope_type": "default", "rope_theta": 1e4}}
case("llama without rope", both, refused="rope_scaling", because="two embeddings; the class takes one without a word")
case("gemma3_text without rope", {"rope_scaling": linear, "rope_parameters": nested}, refused="rope_scaling",
     because="two embeddings; the class takes one without a word")
because = "its masks are causal in one implementation, and not in another"
case("gemma2", {"use_bidirectional_attention": True}, refused="use_bidirectional_attention", because=because)
because = "the text model alone has the mask, the multimodal one has half the window under a causal mask"
change = {"text_config.use_bidirectional_attention": True}
case("gemma3", change, refused="use_bidirectional_attention", because=because)
because = "the overrides of layers are not read"
case("llama", {"per_layer_config": {"0": {"head_dim": 64}}}, refused="per_layer_config", because=because)
# the same twice is one
case("llama without rope", {"rope_scaling": linear, "rope_parameters": linear | {"rope_theta": 10000.0}})
case("gpt_oss without rope", {"rope_scaling": YARN, "rope_parameters": YARN | {"rope_theta": 150000.0}})

assert not wrong, "not as this file says:\n" + "\n".join(wrong)
with open(sys.argv[1], "w") as out:
    head = {"made_by": f"make_models.py, transformers {transformers.__version__}, torch {torch.__version__}"}
    rows = [head] + [{"base": name, "config": config} for name, config in BASES.items()]
    rows += [{"inv_freq": freq} for freq in tables] + [{"kind": kind} for kind in kinds_of_layers] + lines
    out.writelines(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)
print(len(lines), "cases,", len(tables), "tables")
