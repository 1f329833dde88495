extern crate attn_core as attn;

use attn::lang::{AttentionVariant, LogitIndex, Normalizer};
use attn::{VariantParams, attention_variant, compose};

#[derive(Clone, VariantParams)]
struct Plus;

#[attention_variant]
impl AttentionVariant for Plus {
    fn logits_transform(&self, logit: f32, _at: LogitIndex) -> f32 {
        logit + 1.0
    }
}

#[derive(Clone, VariantParams)]
struct Relu {
    slope: f32,
}

#[attention_variant]
impl AttentionVariant for Relu {
    const NORMALIZER: Normalizer = Normalizer::Plain { divide: true };
    fn weight(&self, logit: f32, _row_max: f32, _at: LogitIndex) -> f32 {
        logit.max(0.0) * self.slope
    }
}

fn main() {
    let _ = compose!(Plus, Relu { slope: 1.0 }, Plus);
    let _ = compose!(Relu { slope: 1.0 }, Plus, Relu { slope: 2.0 });
}
