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
    fn logits_transform(&self, logit: f32, _at: LogitIndex) -> f32 {
        let mut sum = logit;
        'outer: for i in 0..3 {
            for j in 0..i {
                sum += j as f32;
                break 'outer;
            }
        }
        sum
    }
}

fn main() {}
