extern crate attn_core as attn;

use attn::lang::*;
use attn::{VariantParams, attention_variant, device_fn};

#[derive(Clone, Debug, VariantParams)]
pub struct X {
    /// A number.
    pub a: f32,
    pub n: i32,
}

#[attention_variant]
impl AttentionVariant for X {
    fn logits_transform(&self, logit: f32, _at: LogitIndex) -> f32 {
        power(logit, self.n)
    }
}

#[device_fn]
fn power(x: f32, n: i32) -> f32 {
    if n == 0 { 1.0 } else { x * power(x, n - 1) }
}

fn main() {}
