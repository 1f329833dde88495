extern crate attn_core as attn;

use attn::lang::*;
use attn::{VariantParams, attention_variant};

#[derive(Clone, Debug, VariantParams)]
pub struct X {
    /// A number.
    pub a: f32,
    pub n: i32,
}

#[attention_variant]
impl AttentionVariant for X {
    fn query_transform<R: Row>(&self, q: &mut R, at: RowIndex) {
        if at.qo_pos > 3 {
            let norm = q.sum_sq().sqrt();
            q.map(|_, x| x / norm);
        }
    }
}

fn main() {}
