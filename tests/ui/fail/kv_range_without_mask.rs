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
    fn kv_range(&self, tile: QueryTile) -> (i32, i32) {
        (tile.qo_pos_min - self.n, tile.qo_pos_max + 1)
    }
}

fn main() {}
