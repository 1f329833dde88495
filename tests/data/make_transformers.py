#!/usr/bin/env python3
"""Outputs of attention, made by the code of models in Hugging Face's transformers.

    python3 make_transformers.py OUT.safetensors        needs torch, transformers, safetensors; a CPU is enough

Each case NAME has NAME.q (qo_tokens, qo_heads, head_dim), NAME.k, NAME.v (kv_tokens, kv_heads, head_dim) in f32, as
they are before any rotation or norm, NAME.o in f64, further tensors as the case says, and its configuration as JSON in
the file's metadata. Queries are the last tokens of the sequence. transformers computes its softmax in f32, so that
outputs are good to about 1e-6.
"""

import json, math, sys, types
import torch, transformers
from safetensors.torch import save_file

F = torch.float64
tensors, meta, failed = {}, {"made_by": f"transformers {transformers.__version__}, torch {torch.__version__}"}, {}


def qkv(seed, lq, lk, h, g, d, dv=None):
    gen = torch.Generator().manual_seed(seed)
    r = lambda *s: torch.randn(*s, generator=gen, dtype=torch.float32)
    return r(lq, h, d), r(lk, g, d), r(lk, g, dv or d)


def heads_first(x):
    return x.transpose(0, 1)[None].to(F)


def positions(lq, lk):
    return torch.arange(lk - lq, lk)[:, None], torch.arange(lk)[None]


def mask_of(ok):
    return torch.where(ok, 0.0, -math.inf).to(F)[None, None]


def module(h, g, **x):
    return types.SimpleNamespace(num_key_value_groups=h // g, training=False, layer_idx=0, **x)


def angles(inv_freq, pos, factor=1.0):
    a = pos[:, None].to(F) * inv_freq.to(F)
    e = torch.cat([a, a], -1)[None]
    return e.cos() * factor, e.sin() * factor


def case(name, **info):
    def wrap(f):
        try:
            q, k, v, o, more = f()
            tensors.update({f"{name}.q": q, f"{name}.k": k, f"{name}.v": v, f"{name}.o": o.contiguous()})
            tensors.update({f"{name}.{n}": t.contiguous() for n, t in more.items()})
            meta[name] = json.dumps(info)
        except Exception as e:
            failed[name] = f"{type(e).__name__}: {e}"
        return f

    return wrap


def llama_eager(q, k, v, ok, scale=None):
    from transformers.models.llama.modeling_llama import eager_attention_forward as f

    return f(
        module(q.shape[1], k.shape[1]), q, k, v, mask_of(ok), scaling=scale or 1 / math.sqrt(q.shape[-1]), dropout=0.0
    )[0][0]


def causal(lq, lk):
    a, b = positions(lq, lk)
    return b <= a


def rotate(fn, q, k, inv_freq, factor=1.0):
    """q, k are heads first; the function is the model's own apply_rotary_pos_emb."""
    lq, lk = q.shape[2], k.shape[2]
    cq, sq = angles(inv_freq, torch.arange(lk - lq, lk), factor)
    ck, sk = angles(inv_freq, torch.arange(lk), factor)
    return fn(q, q, cq, sq)[0], fn(k, k, ck, sk)[0]


@case("causal_gqa", model="llama without positions", group=3)
def _():
    q, k, v = qkv(1, 37, 61, 6, 2, 32)
    return q, k, v, llama_eager(heads_first(q), heads_first(k), heads_first(v), causal(37, 61)), {}


@case("llama_rope", model="Llama 2", rope_theta=10000.0, rotation="half split")
def _():
    from transformers.models.llama.modeling_llama import apply_rotary_pos_emb as f

    q, k, v = qkv(2, 40, 90, 4, 2, 64)
    inv = 10000.0 ** (-torch.arange(0, 64, 2).to(F) / 64)
    a, b = rotate(f, heads_first(q), heads_first(k), inv)
    return q, k, v, llama_eager(a, b, heads_first(v), causal(40, 90)), {}


def scaled(kind, d, cfg):
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    c = LlamaConfig(
        hidden_size=d * 4,
        num_attention_heads=4,
        head_dim=d,
        max_position_embeddings=cfg.pop("max_position_embeddings"),
    )
    p = dict(cfg)
    theta = p.pop("rope_theta")
    c.rope_theta = theta
    c.rope_scaling = {"rope_type": kind, "rope_theta": theta, **p}
    c.rope_parameters = dict(c.rope_scaling)
    return ROPE_INIT_FUNCTIONS[kind](c, torch.device("cpu"))


for kind, cfg in (
    (
        "llama3",
        dict(
            rope_theta=500000.0,
            factor=8.0,
            low_freq_factor=1.0,
            high_freq_factor=4.0,
            original_max_position_embeddings=64,
            max_position_embeddings=512,
        ),
    ),
    (
        "yarn",
        dict(
            rope_theta=10000.0,
            factor=4.0,
            beta_fast=32.0,
            beta_slow=1.0,
            original_max_position_embeddings=64,
            max_position_embeddings=256,
        ),
    ),
    ("linear", dict(rope_theta=10000.0, factor=4.0, max_position_embeddings=256)),
):

    @case(f"rope_{kind}", model=f"rope_type {kind}", **cfg)
    def _():
        from transformers.models.llama.modeling_llama import apply_rotary_pos_emb as f

        q, k, v = qkv(3, 50, 200, 4, 4, 64)
        inv, factor = scaled(kind, 64, dict(cfg))
        a, b = rotate(f, heads_first(q), heads_first(k), inv, factor)
        return (
            q,
            k,
            v,
            llama_eager(a, b, heads_first(v), causal(50, 200)),
            {"inv_freq": inv.to(F), "factor": torch.tensor([float(factor)], dtype=F)},
        )


@case(
    "gemma2",
    model="Gemma 2",
    attn_logit_softcapping=50.0,
    sliding_window=24,
    note="q scaled up so that the cap bites; scaling is 1/sqrt(head_dim)",
)
def _():
    from transformers.models.gemma2.modeling_gemma2 import eager_attention_forward as f

    q, k, v = qkv(4, 33, 77, 4, 2, 64)
    q = q * 12
    a, b = positions(33, 77)
    o = f(
        module(4, 2),
        heads_first(q),
        heads_first(k),
        heads_first(v),
        mask_of((b <= a) & (a - b < 24)),
        dropout=0.0,
        scaling=0.125,
        softcap=50.0,
    )[0][0]
    return q, k, v, o, {}


@case("gpt_oss", model="gpt-oss", sliding_window=20, sinks="tensor sinks")
def _():
    from transformers.models.gpt_oss.modeling_gpt_oss import eager_attention_forward as f

    q, k, v = qkv(5, 30, 70, 8, 2, 64)
    s = torch.linspace(-1, 4, 8, dtype=F)
    a, b = positions(30, 70)
    o = f(
        module(8, 2, sinks=s),
        heads_first(q),
        heads_first(k),
        heads_first(v),
        mask_of((b <= a) & (a - b < 20)),
        scaling=0.125,
        dropout=0.0,
    )[0][0]
    return q, k, v, o, {"sinks": s}


@case("bloom_alibi", model="BLOOM", heads="6, not a power of two")
def _():
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor

    q, k, v = qkv(6, 25, 60, 6, 6, 32)
    alibi = build_alibi_tensor(torch.ones(1, 60), 6, torch.float32).view(6, 60).to(F)  # slope * key position
    s = torch.einsum("qhd,khd->hqk", q.to(F), k.to(F)) / math.sqrt(32) + alibi[:, None]
    s = s.masked_fill(~causal(25, 60)[None], -math.inf)
    return q, k, v, torch.einsum("hqk,khd->qhd", s.softmax(-1), v.to(F)), {"slopes": (alibi[:, 1] - alibi[:, 0])}


for bi in (True, False):

    @case(
        f"t5_bias_{'encoder' if bi else 'decoder'}",
        model="T5",
        buckets=32,
        max_distance=128,
        bidirectional=bi,
        sm_scale=1.0,
    )
    def _():
        from transformers import T5Config
        from transformers.models.t5.modeling_t5 import T5Attention

        torch.manual_seed(7)
        att = T5Attention(
            T5Config(d_model=64, num_heads=4, d_kv=16, is_decoder=not bi), has_relative_attention_bias=True
        )
        with torch.no_grad():
            att.relative_attention_bias.weight.normal_()
        q, k, v = qkv(8, 150, 150, 4, 4, 16)
        try:
            bias = att.compute_bias(150, 150)
        except TypeError:
            bias = att.compute_bias(150, 150, device=torch.device("cpu"))
        s = torch.einsum("qhd,khd->hqk", q.to(F), k.to(F)) + bias[0].to(F)
        if not bi:
            s = s.masked_fill(~causal(150, 150)[None], -math.inf)
        return (
            q,
            k,
            v,
            torch.einsum("hqk,khd->qhd", s.softmax(-1), v.to(F)).detach(),
            {"weights": att.relative_attention_bias.weight.detach()},
        )


@case("qwen3_qk_norm", model="Qwen3", rms_norm_eps=1e-6, rope_theta=1000000.0)
def _():
    from transformers.models.qwen3.modeling_qwen3 import Qwen3RMSNorm, apply_rotary_pos_emb as f

    q, k, v = qkv(9, 20, 55, 4, 2, 64)
    torch.manual_seed(3)
    nq, nk = Qwen3RMSNorm(64, 1e-6), Qwen3RMSNorm(64, 1e-6)
    with torch.no_grad():
        nq.weight.uniform_(0.5, 1.5)
        nk.weight.uniform_(0.5, 1.5)
    inv = 1e6 ** (-torch.arange(0, 64, 2).to(F) / 64)
    a, b = rotate(f, nq(q).detach().transpose(0, 1)[None].to(F), nk(k).detach().transpose(0, 1)[None].to(F), inv)
    return (
        q,
        k,
        v,
        llama_eager(a, b, heads_first(v), causal(20, 55)),
        {"q_weight": nq.weight.detach(), "k_weight": nk.weight.detach()},
    )


@case("glm_partial_rotary", model="GLM", partial_rotary_factor=0.5, rotation="neighbours", rope_theta=10000.0)
def _():
    from transformers.models.glm.modeling_glm import apply_rotary_pos_emb as f

    q, k, v = qkv(10, 31, 64, 4, 2, 64)
    inv = 10000.0 ** (-torch.arange(0, 32, 2).to(F) / 32)
    a, b = rotate(f, heads_first(q), heads_first(k), inv)
    return q, k, v, llama_eager(a, b, heads_first(v), causal(31, 64)), {}


@case("gptj_rotary", model="GPT-J", rotary_dim=16, rotation="neighbours", rope_theta=10000.0)
def _():
    from transformers.models.gptj.modeling_gptj import apply_rotary_pos_emb as f

    q, k, v = qkv(11, 28, 50, 4, 4, 32)
    inv = 10000.0 ** (-torch.arange(0, 16, 2).to(F) / 16)

    def rotated(x, first):  # (1, tokens, heads, 16) as GPT-J has it
        a = (torch.arange(first, first + x.shape[0])[:, None].to(F) * inv)[None]
        return torch.cat([f(x[None, ..., :16].to(F), a.sin(), a.cos())[0], x[..., 16:].to(F)], -1)

    a, b = rotated(q, 22), rotated(k, 0)
    return q, k, v, llama_eager(a.transpose(0, 1)[None], b.transpose(0, 1)[None], heads_first(v), causal(28, 50)), {}


@case("llama4_chunked", model="Llama 4", attention_chunk_size=16, note="causal within chunks of 16")
def _():
    q, k, v = qkv(13, 40, 75, 4, 2, 32)
    a, b = positions(40, 75)
    return q, k, v, llama_eager(heads_first(q), heads_first(k), heads_first(v), (b <= a) & (a // 16 == b // 16)), {}


@case("mistral_window", model="Mistral", sliding_window=17)
def _():
    from transformers.masking_utils import sliding_window_causal_mask_function as m

    q, k, v = qkv(14, 44, 80, 4, 2, 32)
    a, b = positions(44, 80)
    g = m(17)
    z = torch.zeros((), dtype=torch.long)
    ok = g(z, z, a, b).expand(44, 80)
    return q, k, v, llama_eager(heads_first(q), heads_first(k), heads_first(v), ok), {"mask": ok}


@case(
    "deepseek_mla",
    model="DeepSeek-V3 in its absorbed form",
    note="queries of 512 + 64 elements against one latent of 512 and one rotated key of 64; "
    "values are the latent's first 512; scale 1/sqrt(192)",
    sm_scale=1 / math.sqrt(192),
)
def _():
    q, k, _v = qkv(15, 9, 120, 8, 1, 576)
    q, k = q * 0.3, k * 0.3
    s = torch.einsum("qhd,kd->hqk", q.to(F), k[:, 0].to(F)) / math.sqrt(192)
    s = s.masked_fill(~causal(9, 120)[None], -math.inf)
    return q, k, k[:, :, :512].contiguous(), torch.einsum("hqk,kd->qhd", s.softmax(-1), k[:, 0, :512].to(F)), {}


@case("cohere_causal_96", model="head_dim 96, 5 query heads a KV head")
def _():
    q, k, v = qkv(16, 21, 52, 10, 2, 96)
    return q, k, v, llama_eager(heads_first(q), heads_first(k), heads_first(v), causal(21, 52)), {}


save_file({n: t.contiguous() for n, t in tensors.items()}, sys.argv[1], metadata=meta)
print(len(meta) - 1, "cases;", "failed:", json.dumps(failed, indent=1))
