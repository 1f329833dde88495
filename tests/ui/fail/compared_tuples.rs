extern crate attn_core as attn;

use attn::lang::*;
use attn::{VariantParams, attention_variant};

#[derive(Clone, Debug, VariantParams)]
pub struct X {
    /// A number.
    pub a: f32,
    pub u: u32,
    pub flag: bool,
}

#[attention_variant]
impl AttentionVariant for X {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        (at.kv_pos, at.kv_len) < (at.qo_pos, 3) || *at == at.row
    }
}

fn main() {}
