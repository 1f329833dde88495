extern crate attn_core as attn;

use attn::lang::*;
use attn::{VariantParams, attention_variant, variants};

const TABLE: [i32; 2] = [1, 2];

#[derive(Clone, Debug, VariantParams)]
pub struct X;

#[attention_variant]
impl AttentionVariant for X {
    fn query_transform<R: Row>(&self, q: &mut R, _at: RowIndex) {
        q[0] = 1.0;
    }
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        let a = logit.asinh() + (at.kv_pos.ilog2() as f32);
        let b = matches!(at.kv_pos, 1 | 2);
        let c = String::from("a");
        let d = TABLE[0];
        let e: i32 = (0..4).map(|i| i * 2).sum();
        a
    }
}

#[derive(Clone, Debug, VariantParams)]
pub struct Named;

#[attention_variant(name = "not")]
impl AttentionVariant for Named {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        at.kv_pos <= at.qo_pos
    }
}

fn main() {
    let _ = variants![X, Named];
}
