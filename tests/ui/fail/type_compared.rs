extern crate attn_core as attn;

use attn::lang::*;
use attn::{VariantParams, attention_variant, device_type};

#[device_type]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    pub slope: f32,
}

#[derive(Clone, Debug, VariantParams)]
pub struct X {
    pub a: f32,
}

#[attention_variant]
impl AttentionVariant for X {
    fn logits_transform(&self, logit: f32, _at: LogitIndex) -> f32 {
        let line = Line { slope: self.a };
        if line == (Line { slope: 1.0 }) { logit } else { 0.0 }
    }
}

fn main() {}
