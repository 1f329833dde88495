extern crate attn_core as attn;

use attn::lang::*;
use attn::{VariantParams, attention_variant};

#[derive(Clone, Debug, VariantParams)]
pub struct X {
    /// A number.
    pub a: f32,
    pub n: i32,
}

#[attention_variant]
impl AttentionVariant for X {
    fn logits_transform(&self, logit: f32, _at: LogitIndex) -> f32 {
        logit + 3i16 as f32
    }
}

fn main() {}
