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
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        let table = [1.0, 2.0, 3.0, self.a];
        let mut k = 0;
        k += 1;
        let i = at.qo_head as usize;
        table[4] + table[k] + table[(at.kv_pos % 4) as usize] + table[(at.kv_pos & 3) as usize] * logit
    }
}

fn main() {}
