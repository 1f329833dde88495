"""A variant of Rust text on the GPU, against SDPA with a mask."""

import pytest

import attn_rs

torch = pytest.importorskip("torch")

BAND = """
use attn::prelude::*;

const WIDEST: i32 = 1000;

/// A half of the distance, as an example of a helper.
#[device_fn]
fn half(distance: i32) -> i32 {
    distance / 2
}

/// Keys within a distance, whose logits are capped.
#[derive(Clone, VariantParams)]
struct TextBand {
    #[require(distance >= 0 && distance <= WIDEST)]
    distance: i32,
    #[default(30.0)]
    cap: f32,
}

#[attention_variant]
impl AttentionVariant for TextBand {
    fn logits_transform(&self, logit: f32, _at: LogitIndex) -> f32 {
        self.cap * (logit / self.cap).tanh()
    }
    fn logits_mask(&self, at: LogitIndex) -> bool {
        half((at.qo_pos - at.kv_pos).abs()) <= self.distance && at.kv_pos < WIDEST
    }
}
"""


def reference(q, k, v, distance, cap, is_causal=False, part=2):
    """Attention by its definition in f64; heads of k and v are repeated."""
    group = q.shape[2] // k.shape[2]
    q, k, v = (x.double().transpose(1, 2) for x in (q, k.repeat_interleave(group, 2), v.repeat_interleave(group, 2)))
    logits = cap * torch.tanh(q @ k.transpose(2, 3) * q.shape[-1] ** -0.5 / cap)
    at = torch.arange(q.shape[2], device=q.device)[:, None] + k.shape[2] - q.shape[2]
    kv = torch.arange(k.shape[2], device=q.device)[None]
    keep = ((at - kv).abs() // part <= distance) & (kv < 1000)
    if is_causal:
        keep = keep & (kv <= at)
    return (torch.softmax(logits.masked_fill(~keep, -torch.inf), -1) @ v).transpose(1, 2)


@pytest.mark.parametrize("queries", [1, 300])
@pytest.mark.parametrize("is_causal", [False, True])
def test_a_text_runs_in_prefill_and_decode(cuda, queries, is_causal):
    assert attn_rs.variant(BAND, "band.rs") == ["text_band"]
    q = torch.randn(2, queries, 8, 64, device=cuda, dtype=torch.float16)
    k, v = (torch.randn(2, 777, 2, 64, device=cuda, dtype=torch.float16) for _ in range(2))
    expression = "text_band(distance=40, cap=5)" + (" + causal" if is_causal else "")
    o = attn_rs.attention(q, k, v, expression)
    want = reference(q, k, v, 40, 5.0, is_causal)
    assert (o.double() - want).norm() / want.norm() < 2e-3


def test_a_changed_text_is_compiled_anew(cuda):
    q, k, v = (torch.randn(1, 200, 4, 64, device=cuda, dtype=torch.float16) for _ in range(3))
    for part in (2, 4):
        attn_rs.variant(BAND.replace("distance / 2", f"distance / {part}"), "band.rs")
        o = attn_rs.attention(q, k, v, "text_band(distance=20)")
        want = reference(q, k, v, 20, 30.0, part=part)
        assert (o.double() - want).norm() / want.norm() < 2e-3


def test_what_the_compiler_finds_has_the_line_of_the_text(cuda):
    # the types of a helper's body are the compiler's to check
    text = BAND.replace("(logit / self.cap).tanh()", "(logit / self.cap).tanh() + self.unknown.powi(2)")
    with pytest.raises(attn_rs.InvalidVariant, match=r"band.rs:2\d:\d+: no field `unknown`"):
        attn_rs.variant(text, "band.rs")
