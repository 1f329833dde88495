extern crate attn_core as attn;

use attn::lang::*;
use attn::{VariantParams, attention_variant};

#[derive(Clone, Debug, VariantParams)]
pub struct X {
    /// Logits.
    #[shape(qo_heads)]
    pub out: OutTensor1,
}

#[attention_variant]
impl AttentionVariant for X {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        self.out.store(at.qo_head, 1.0);
        at.kv_pos <= at.qo_pos
    }

    fn sink_logit(&self, at: RowIndex) -> f32 {
        self.out.store(at.qo_head);
        0.0
    }
}

fn main() {}
