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
        let high = (!0 >> 4) & self.u;
        let mut sum = high;
        for i in 0..4 {
            sum += self.u * i;
        }
        let (x, y) = (1, 2.0);
        logit + (sum + x) as f32 + y
    }
}

fn main() {}
