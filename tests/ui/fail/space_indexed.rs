extern crate attn_core as attn;

use attn::lang::*;
use attn::{VariantParams, attention_variant};

#[derive(Clone, Debug, VariantParams)]
pub struct X {
    #[require(n >= 1)]
    pub n: i32,
    #[shape(qo_tokens)]
    pub t: Tensor1<f32>,
    #[shape(kv_tokens, n)]
    pub k: Tensor2<f32>,
    #[shape(batch)]
    pub b: Tensor1<f32>,
    #[shape(qo_heads, 2 * n + 1)]
    pub h: Tensor2<f32>,
}

#[attention_variant]
impl AttentionVariant for X {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        let row = at.qo_row;
        let right = self.t[at.qo_token] + self.k[[at.kv_token, at.kv_pos]] + self.b[at.batch];
        let heads = self.h[[at.kv_head, at.kv_pos]];
        logit + right
            + heads
            + self.t[at.kv_pos]
            + self.t[row - 1]
            + self.k[[at.kv_pos, 0]]
            + self.b[at.qo_head]
            + self.t[space::plain(at.kv_pos)]
    }
}

fn main() {}
