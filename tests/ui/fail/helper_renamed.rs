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
        half(logit)
    }
}

mod helpers {
    use attn::device_fn;
    #[device_fn]
    pub fn halved(x: f32) -> f32 {
        x * 0.5
    }
}
use helpers::halved as half;

fn main() {}
