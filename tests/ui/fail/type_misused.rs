extern crate attn_core as attn;

use attn::lang::*;
use attn::{VariantParams, attention_variant, device_fn, device_type};

#[device_type]
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub enum Mode {
    Linear,
    Flat,
}
use Mode::{Flat, Linear};

#[device_type]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    pub slope: f32,
    pub bias: f32,
}

impl Line {
    fn new(slope: f32) -> Line {
        Line { slope, bias: 0.0 }
    }
    fn at(self, x: f32) -> f32 {
        self.slope * x + self.bias
    }
}

#[derive(Clone, Debug, VariantParams)]
pub struct X {
    pub a: f32,
    pub n: i32,
}

#[device_fn]
fn mode(n: i32) -> Mode {
    if n > 3 { Linear } else { Mode::Flat }
}

#[device_fn]
fn line(x: f32) -> Line {
    Line { slope: x, bias: 1.0 }
}

#[attention_variant]
impl AttentionVariant for X {
    fn logits_transform(&self, logit: f32, _at: LogitIndex) -> f32 {
        let first = Line::new(self.a);
        let second = Line { slope: 1.0, bias: 0.0 };
        let mut third = line(self.a);
        third.slope = 2.0;
        let low = Mode::Linear < mode(self.n);
        let bare = match mode(self.n) {
            Linear => 1.0,
            Flat => 0.0,
        };
        let maybe = Some(3);
        logit + second.at(1.0)
    }
}

fn main() {}
