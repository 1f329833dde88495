extern crate attn_core as attn;

use attn::lang::*;
use attn::{VariantParams, attention_variant};

#[derive(Clone, Debug, VariantParams)]
pub struct X;

#[attention_variant]
impl AttentionVariant for X {
    fn sink_logit(&self, at: RowIndex) -> f32 {
        at.kv_pos as f32
    }
}

fn main() {}
