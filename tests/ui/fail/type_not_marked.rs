extern crate attn_core as attn;

use attn::lang::*;
use attn::{VariantParams, attention_variant};

#[derive(Clone, Debug, VariantParams)]
pub struct X {
    /// A number.
    pub a: f32,
    pub n: i32,
}

#[derive(Clone, Copy)]
pub struct Line {
    pub slope: f32,
}

#[derive(Clone, Copy, PartialEq)]
pub enum Mode {
    Linear,
    Flat,
}

#[attention_variant]
impl AttentionVariant for X {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        let line = Line { slope: self.a };
        match mode(at.kv_pos + self.n) {
            Mode::Linear => logit * line.slope,
            Mode::Flat => 0.0,
        }
    }
}

#[attn::device_fn]
fn mode(n: i32) -> Mode {
    if n > 3 { Mode::Linear } else { Mode::Flat }
}

fn main() {}
