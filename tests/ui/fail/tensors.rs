//! Parameter tensors and outputs, and random numbers.

extern crate attn_core as attn;

use attn::lang::*;
use attn::{VariantParams, attention_variant};

include!("../structs.rs");
structs!(RandomArguments);

#[derive(Clone, Debug, VariantParams)]
pub struct TensorIndexedByUsize {
    #[shape(qo_heads)]
    pub slopes: Tensor1<f32>,
    #[shape(qo_heads, head_dim)]
    pub table: Tensor2<f32>,
}

#[attention_variant]
impl AttentionVariant for TensorIndexedByUsize {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        logit + self.slopes[at.qo_head as usize] + self.table[[at.qo_head, at.kv_pos as usize]]
    }
}

#[derive(Clone, Debug, VariantParams)]
pub struct TensorIndexedInAChain {
    #[shape(qo_heads, head_dim)]
    pub table: Tensor2<f32>,
}

#[attention_variant]
impl AttentionVariant for TensorIndexedInAChain {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        logit + self.table[at.qo_head][at.kv_pos]
    }
}

#[derive(Clone, Debug, VariantParams)]
pub struct TensorRank {
    pub a: f32,
    #[shape(qo_heads)]
    pub table: Tensor1<f32>,
}

#[attention_variant]
impl AttentionVariant for TensorRank {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        logit + self.table[[at.qo_head]] + self.table.get(3)
    }
}

#[derive(Clone, Debug, VariantParams)]
pub struct OutputRead {
    #[shape(qo_tokens)]
    pub out: OutTensor1,
}

#[attention_variant]
impl AttentionVariant for OutputRead {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        logit + self.out[at.qo_token]
    }
}

#[derive(Clone, Debug, VariantParams)]
pub struct StoreInMask {
    /// Logits.
    #[shape(qo_heads)]
    pub out: OutTensor1,
}

#[attention_variant]
impl AttentionVariant for StoreInMask {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        self.out.store(at.qo_head, 1.0);
        at.kv_pos <= at.qo_pos
    }

    fn sink_logit(&self, at: RowIndex) -> f32 {
        self.out.store(at.qo_head);
        0.0
    }
}

#[attention_variant]
impl AttentionVariant for RandomArguments {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        logit + attn::random::uniform(1, 2) + attn::random::normal(1, 2, 3, 4)
    }
}

fn main() {}
