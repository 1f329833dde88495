extern crate attn_core as attn;

use attn::lang::*;
use attn::{VariantParams, attention_variant};

#[derive(Clone, Debug, VariantParams)]
pub struct X {
    /// A number.
    pub a: f32,
    pub u: u32,
    pub flag: bool,
}

#[attention_variant]
impl AttentionVariant for X {
    fn query_transform<R: Row>(&self, q: &mut R, _at: RowIndex) {
        let row = q;
        row.map(|_, x| x * self.a);
    }
}

fn main() {}
