//! Bounds of transformed logits: where the generated text reports a bound, no logit exceeds it.

use attn_core::lang::{AttentionVariant, Dims, LogitIndex, RowIndex, Tensor1};
use attn_core::{VariantParams, attention_variant};
use attn_tests::host::HostVariant;

/// Relative rounding error of bounds. The `tanh` instruction has a relative error of 2^-11, so its bound is larger by
/// [`APPROXIMATE`].
const SLACK: f32 = 1e-6;
const APPROXIMATE: f32 = 1.0005;

/// The parameters of all variants in this file.
macro_rules! params {
    ($($name:ident)*) => {
        $(
            #[derive(Clone, Debug, VariantParams)]
            struct $name {
                a: f32,
                b: f32,
            }
        )*
    };
}

params!(Sigmoid Clamped LowerFirst UpperFirst Waves Decaying Chosen Early Lower Squared Positions);

#[attention_variant(name = "sigmoid_cap")]
impl AttentionVariant for Sigmoid {
    fn logits_transform(&self, logit: f32, _at: LogitIndex) -> f32 {
        let steep = self.b * 0.5;
        self.a / (1.0 + (-logit * steep).exp()) - self.b
    }
}

#[attention_variant(name = "clamped")]
impl AttentionVariant for Clamped {
    fn logits_transform(&self, logit: f32, _at: LogitIndex) -> f32 {
        logit.clamp(self.a, self.b)
    }
}

#[attention_variant(name = "lower_first")]
impl AttentionVariant for LowerFirst {
    fn logits_transform(&self, logit: f32, _at: LogitIndex) -> f32 {
        logit.max(self.a).min(self.b)
    }
}

#[attention_variant(name = "upper_first")]
impl AttentionVariant for UpperFirst {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        let floor = -self.a.abs();
        floor.max(self.b.min(logit + at.kv_pos as f32))
    }
}

#[attention_variant(name = "waves")]
impl AttentionVariant for Waves {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        let wave = (logit * self.a).sin();
        wave.mul_add(self.b, -(at.qo_pos as f32).cos() * self.a)
    }
}

#[attention_variant(name = "decaying")]
impl AttentionVariant for Decaying {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        let far = (at.qo_pos - at.kv_pos) as f32;
        self.a * (-far.abs()).exp() + self.b * logit.signum()
    }
}

#[attention_variant(name = "chosen")]
impl AttentionVariant for Chosen {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        let small = logit.tanh();
        if at.kv_pos % 2 == 0 { self.a * small } else { self.b - small }
    }
}

/// Returns an unbounded logit early.
#[attention_variant(name = "early")]
impl AttentionVariant for Early {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        if at.kv_pos < 4 {
            return logit;
        }
        self.a * (logit * self.b).tanh()
    }
}

/// Bounded on one side only.
#[attention_variant(name = "lower")]
impl AttentionVariant for Lower {
    fn logits_transform(&self, logit: f32, _at: LogitIndex) -> f32 {
        logit.max(self.a).max(self.b)
    }
}

#[attention_variant(name = "squared")]
impl AttentionVariant for Squared {
    fn logits_transform(&self, logit: f32, _at: LogitIndex) -> f32 {
        self.a * logit.tanh() * logit + self.b
    }
}

#[attention_variant(name = "far_positions")]
impl AttentionVariant for Positions {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        self.a * logit.tanh() + self.b * at.kv_pos as f32
    }
}

#[derive(Clone, Debug, VariantParams)]
struct HeadCaps {
    #[shape(qo_heads)]
    caps: Tensor1<f32>,
}

/// The cap differs between rows.
#[attention_variant(name = "head_caps")]
impl AttentionVariant for HeadCaps {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        self.caps[at.qo_head] * logit.tanh()
    }
}

fn host(expr: &str) -> HostVariant {
    let own = attn_core::variants![
        Sigmoid, Clamped, LowerFirst, UpperFirst, Waves, Decaying, Chosen, Early, Lower, Squared, Positions, HeadCaps
    ];
    let dims = Dims { qo_heads: Some(2), kv_heads: Some(1), qo_tokens: Some(2), kv_tokens: Some(3), ..Dims::default() };
    HostVariant::of_expr(expr, own, &dims)
}

/// Logits of every magnitude and sign, including infinities, each at other coordinates.
fn logits() -> impl Iterator<Item = (f32, LogitIndex)> {
    let sizes = (-30..60).map(|n| 1.7f32.powi(n)).chain([0.0, f32::INFINITY]);
    sizes.flat_map(|x| [x, -x]).zip(0i32..).map(|(x, n)| {
        let row = RowIndex { qo_head: n / 2 % 2, qo_pos: n * 37 % 101, kv_len: 900, qo_len: 10, ..RowIndex::default() };
        (x, LogitIndex { row, kv_pos: n * 11 % 53, kv_token: n, ..LogitIndex::default() })
    })
}

#[test]
fn no_logit_exceeds_its_bound() {
    for (expr, want) in [
        ("soft_cap(cap=30)", 30.0 * APPROXIMATE),
        ("causal + rope + soft_cap(cap=50)", 50.0 * APPROXIMATE),
        ("alibi + soft_cap(cap=2.5) + sink(logits=[0, 1])", 2.5 * APPROXIMATE),
        ("sigmoid_cap(a=40, b=3)", 37.0),
        ("sigmoid_cap(a=40, b=30)", 30.0),
        ("clamped(a=-3, b=2)", 3.0),
        ("lower_first(a=-3, b=20)", 20.0),
        ("upper_first(a=-7, b=5)", 7.0),
        ("waves(a=-2, b=3)", 5.0),
        ("decaying(a=4, b=-3)", 7.0),
        ("chosen(a=1, b=9)", 10.0),
        ("per_head(heads=[0, 1], soft_cap(cap=3), clamped(a=-1, b=8))", 8.0),
        ("remap(positions(of_query=[0, 1], of_key=[0, 1, 2]), alibi + chosen(a=6, b=2))", 6.0),
    ] {
        let host = host(expr);
        let bound = host.logits_bound().unwrap_or_else(|| panic!("{expr} is bounded"));
        assert!((bound - want).abs() <= SLACK * want, "{expr}: at most {bound}, not {want}");
        let mut largest = 0.0f32;
        for (logit, at) in logits() {
            let size = host.logits_transform(logit, at).abs();
            // the sine of an infinite angle is NaN
            assert!(size <= bound * (1.0 + SLACK) || size.is_nan(), "{expr}: {logit} becomes {size}, above {bound}");
            largest = largest.max(size);
        }
        assert!(largest > 0.7 * bound, "{expr}: {bound} is far above {largest}");
    }
}

#[test]
fn unbounded_transforms_have_no_bound() {
    for expr in [
        "full",
        "causal + rope",
        "alibi",
        "soft_cap(cap=30) + alibi",
        "early(a=2, b=1)",
        "lower(a=2, b=1)",
        "squared(a=2, b=1)",
        "far_positions(a=2, b=1)",
        "head_caps(caps=[1, 2])",
        "per_head(heads=[0, 1], soft_cap(cap=3), alibi)",
        "per_head(heads=[0, 1], soft_cap(cap=3), causal)",
        "remap(positions(of_query=[0, 1], of_key=[0, 1, 2]), soft_cap(cap=3) + alibi)",
    ] {
        assert_eq!(host(expr).logits_bound(), None, "{expr}");
    }
}

#[test]
fn nan_and_infinite_parameters_give_no_finite_bound() {
    for expr in [
        "clamped(a=-3, b=inf)",
        "clamped(a=nan, b=2)",
        "lower_first(a=nan, b=2)",
        "lower_first(a=-1, b=nan)",
        "upper_first(a=nan, b=2)",
        "sigmoid_cap(a=nan, b=1)",
        "waves(a=1, b=inf)",
        "per_head(heads=[0, 1], clamped(a=-3, b=nan), soft_cap(cap=3))",
        "per_head(heads=[0, 1], soft_cap(cap=3), clamped(a=-3, b=nan))",
    ] {
        let bound = host(expr).logits_bound().expect(expr);
        assert!(!bound.is_finite(), "{expr}: {bound}");
    }
}
