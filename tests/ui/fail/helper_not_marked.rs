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
    fn logits_transform(&self, logit: f32, _at: LogitIndex) -> f32 {
        double(logit) + quadruple(logit)
    }
    fn logits_mask(&self, at: LogitIndex) -> bool {
        helpers::near(at.qo_pos, at.kv_pos)
    }
}

#[attn::device_fn]
fn quadruple(x: f32) -> f32 {
    2.0 * double(x)
}

mod helpers {
    pub fn near(a: i32, b: i32) -> bool {
        a - b < 4
    }
}

fn double(x: f32) -> f32 {
    x * 2.0
}

fn main() {}
