extern crate attn_core as attn;

use attn::lang::*;
use attn::{VariantParams, attention_variant, device_type};

#[device_type]
#[derive(Clone, Copy)]
pub enum Shape {
    Flat,
    Line(f32),
    Curve { a: f32, b: f32 },
}

#[device_type]
#[derive(Clone, Copy)]
pub enum Large {
    Most = 1 << 40,
}

#[derive(Clone, Debug, VariantParams)]
pub struct X {
    /// A number.
    pub a: f32,
}

#[attention_variant]
impl AttentionVariant for X {
    fn logits_transform(&self, logit: f32, _at: LogitIndex) -> f32 {
        let shape = Shape::Line(self.a);
        logit + self.a
    }
}

fn main() {}
