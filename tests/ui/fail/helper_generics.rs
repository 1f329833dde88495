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
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        power::<{ 1 + 2 }>(logit)
    }
}

#[attn::device_fn]
fn power<const N: i32>(x: f32) -> f32 {
    x * N as f32
}

#[attn::device_fn]
fn of_any<T>(x: T) -> f32 {
    1.0
}

fn main() {}
