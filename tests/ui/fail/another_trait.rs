extern crate attn_core as attn;

use attn::{VariantParams, attention_variant};

#[derive(Clone, Debug, VariantParams)]
pub struct X {
    /// A number.
    pub a: f32,
}

#[attention_variant]
impl Default for X {
    fn default() -> Self {
        X { a: 1.0 }
    }
}

fn main() {}
