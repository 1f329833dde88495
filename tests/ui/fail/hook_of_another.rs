extern crate attn_core as attn;

use attn::lang::*;
use attn::{VariantParams, attention_variant};

#[derive(Clone, Debug, VariantParams)]
pub struct Near;

#[attention_variant]
impl AttentionVariant for Near {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        at.qo_pos - at.kv_pos < 9
    }
}

#[derive(Clone, Debug, VariantParams)]
pub struct X;

#[attention_variant]
impl AttentionVariant for X {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        Near.logits_mask(at) || Near::logits_mask(&Near, at)
    }
}

fn main() {}
