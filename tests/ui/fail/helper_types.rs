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
        logit
    }
}

#[device_fn]
fn total(xs: &[f32], n: usize) -> f32 {
    xs[n]
}

#[device_fn]
fn generic<T: Copy>(x: T) -> f32 {
    let _ = x;
    0.0
}

fn main() {}
