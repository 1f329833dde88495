extern crate attn_core as attn;

use attn::lang::*;
use attn::{VariantParams, attention_variant};

#[derive(Clone, Debug, VariantParams)]
pub struct X {
    #[shape(qo_tokens)]
    pub out: OutTensor1,
}

#[attention_variant]
impl AttentionVariant for X {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        logit + self.out[at.qo_token]
    }
}

fn main() {}
