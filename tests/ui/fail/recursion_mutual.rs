extern crate attn_core as attn;

use attn::lang::*;
use attn::{VariantParams, attention_variant, device_fn};

#[derive(Clone, Debug, VariantParams)]
pub struct X {
    pub n: i32,
}

#[attention_variant]
impl AttentionVariant for X {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        even(at.kv_pos, self.n)
    }
}

#[device_fn]
fn even(x: i32, n: i32) -> bool {
    if n == 0 { x % 2 == 0 } else { odd(x - 1, n - 1) }
}

#[device_fn]
fn odd(x: i32, n: i32) -> bool {
    if n == 0 { x % 2 == 1 } else { even(x - 1, n - 1) }
}

fn main() {}
