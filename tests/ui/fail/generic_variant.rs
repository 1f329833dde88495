extern crate attn_core as attn;

use attn::lang::*;
use attn::{attention_variant};

#[attention_variant]
impl<const N: i32> AttentionVariant for X<N> {
    fn logits_transform(&self, logit: f32, _at: LogitIndex) -> f32 {
        logit * N as f32
    }
}

#[derive(Clone, Debug)]
pub struct X<const N: i32>;

fn main() {}
