extern crate attn_core as attn;

use attn::lang::*;
use attn::{VariantParams, attention_variant, device_type};

#[device_type]
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mode {
    Linear,
    Flat,
}

#[device_type]
#[derive(Clone, Copy, Debug)]
pub struct Line {
    pub slope: f32,
}

#[derive(Clone, Debug, VariantParams)]
pub struct X {
    pub line: Line,
    pub mode: Mode,
}

#[attention_variant]
impl AttentionVariant for X {
    fn logits_transform(&self, logit: f32, _at: LogitIndex) -> f32 {
        if self.mode == Mode::Flat { 0.0 } else { logit * self.line.slope }
    }
}

fn main() {}
