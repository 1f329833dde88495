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
        for _ in 0..3 {
            sum += if self.flag { break } else { 1.0 };
        }
        sum * match self.u {
            0 => return 1.0,
            n => n as f32,
        }
    }
}

fn main() {}
