extern crate attn_core as attn;

use attn::lang::*;
use attn::{VariantParams, attention_variant};

#[derive(Clone, Debug, VariantParams)]
pub struct X {
    #[shape(qo_heads)]
    pub slopes: Tensor1<f32>,
    #[shape(qo_heads, head_dim)]
    pub table: Tensor2<f32>,
}

#[attention_variant]
impl AttentionVariant for X {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        logit + self.slopes[at.qo_head as usize] + self.table[[at.qo_head, at.kv_pos as usize]]
    }
}

fn main() {}
