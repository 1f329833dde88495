extern crate attn_core as attn;

use attn::lang::*;
use attn::{VariantParams, attention_variant};

#[derive(Clone, Debug, VariantParams)]
pub struct X {
    /// A number.
    pub a: f32,
    #[shape(qo_heads)]
    pub table: Tensor1<f32>,
}

#[attention_variant]
impl AttentionVariant for X {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        logit + self.table[[at.qo_head]] + self.table.get(3)
    }
}

fn main() {}
