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
    fn query_transform<R: Row>(&self, q: &mut R, _at: RowIndex) {
        q.rotate_halves(64, |_| (1.0, 0.0));
    }
}

fn main() {}
