//! Slopes of biases: where the generated text reports a bias as affine in the key, the bias grows by the slope from one
//! key to the next.

use attn_core::lang::{AttentionVariant, Dims, LogitIndex, RowIndex, Tensor1};
use attn_core::{VariantParams, attention_variant};
use attn_tests::host::HostVariant;

const HEADS: i64 = 4;

#[derive(Clone, Debug, VariantParams)]
struct Slanted {
    rate: f32,
    step: i32,
    #[shape(qo_heads)]
    of_head: Tensor1<f32>,
}

/// Every form that the analysis follows, with `let`.
#[attention_variant(name = "slanted")]
impl AttentionVariant for Slanted {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        let back = (at.qo_pos - at.kv_pos) as f32;
        let token = (self.step * at.kv_token) as f32;
        let by_head = self.of_head[at.qo_head] * (back - 3.0) / 7.0;
        logit - (by_head + (token - 0.5 * at.kv_pos as f32) * self.rate + -back)
    }
}

#[derive(Clone, Debug, VariantParams)]
struct Even {
    shift: f32,
}

/// Affine with slope 0, because it does not depend on the key.
#[attention_variant(name = "even")]
impl AttentionVariant for Even {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        logit + self.shift * at.qo_pos as f32
    }
}

#[derive(Clone, Debug, VariantParams)]
struct Square {
    by: f32,
}

#[attention_variant(name = "square")]
impl AttentionVariant for Square {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        let key = at.kv_pos as f32;
        logit + self.by * key * key
    }
}

#[derive(Clone, Debug, VariantParams)]
struct Stairs {
    of: i32,
}

#[attention_variant(name = "stairs")]
impl AttentionVariant for Stairs {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        logit + (at.kv_pos / self.of.max(1)) as f32
    }
}

#[derive(Clone, Debug, VariantParams)]
struct Bent {
    at_most: f32,
}

#[attention_variant(name = "bent")]
impl AttentionVariant for Bent {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        let mut far = (at.qo_pos - at.kv_pos) as f32;
        if far > self.at_most {
            far = self.at_most;
        }
        logit - far
    }
}

fn host(expr: &str) -> HostVariant {
    let own = attn_core::variants![Slanted, Even, Square, Stairs, Bent];
    let dims =
        Dims { qo_heads: Some(HEADS), kv_heads: Some(2), qo_tokens: Some(2), kv_tokens: Some(3), ..Dims::default() };
    HostVariant::of_expr(expr, own, &dims)
}

fn at(qo_head: i32, qo_pos: i32, kv_pos: i32) -> LogitIndex {
    let row = RowIndex { qo_head, qo_pos, kv_len: 900, qo_len: 10, ..RowIndex::default() };
    LogitIndex { row, kv_pos, kv_token: 40 + kv_pos, ..LogitIndex::default() }
}

#[test]
fn a_bias_grows_by_its_slope_per_key() {
    for expr in [
        "alibi",
        "causal + alibi",
        "alibi + alibi",
        "slanted(rate=0.25, step=3, of_head=[1, 2, 0.5, -4])",
        "sliding_window(window=9) + alibi + even(shift=0.5)",
        "even(shift=2)",
    ] {
        let host = host(expr);
        for (head, query, key, steps) in [(0, 5, 3, 1), (1, 700, 12, 127), (3, 0, 800, 64), (2, 64, 64, 2)] {
            let first = at(head, query, key);
            let slope = host.logits_slope(first).unwrap_or_else(|| panic!("{expr} is affine"));
            let (bias, there) = (host.logits_bias(first), host.logits_bias(at(head, query, key + steps)));
            let want = f64::from(bias) + f64::from(slope) * f64::from(steps);
            let off = (want - f64::from(there)).abs() / f64::from(bias.abs() + there.abs()).max(1.0);
            assert!(off < 1e-6, "{expr}: {bias} + {steps} * {slope} is not {there}");
        }
    }
}

#[test]
fn biases_that_are_not_affine_have_no_slope() {
    for expr in [
        "soft_cap(cap=30)",
        "square(by=2)",
        "stairs(of=3)",
        "bent(at_most=4)",
        "alibi + square(by=1)",
        "alibi + soft_cap(cap=30)",
        "per_head(heads=[0, 0, 1, 1], alibi, even(shift=1))",
        "remap(positions(of_query=[0, 1], of_key=[0, 1, 2]), alibi)",
    ] {
        assert_eq!(host(expr).logits_slope(at(0, 3, 1)), None, "{expr}");
    }
}
