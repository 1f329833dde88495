#![deny(deprecated)]
extern crate attn_core as attn;

use attn::lang::*;
use attn::{VariantParams, attention_variant};

#[derive(Clone, Debug, VariantParams)]
pub struct X {
    /// A number.
    pub block: i32,
    #[require(stride > 0)]
    pub stride: i32,
    pub compared: i32,
}

#[attention_variant]
impl AttentionVariant for X {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        let steps = if self.compared == 0 { 0 } else { at.kv_pos % self.compared };
        at.kv_pos / self.block == at.qo_pos / self.stride + steps
    }
}

fn main() {}
