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
    fn denominator(&self, _logit: f32, _row_max: f32, weight: f32, _at: LogitIndex) -> f32 {
        weight
    }
}

fn main() {}
