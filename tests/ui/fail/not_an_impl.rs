extern crate attn_core as attn;

use attn::{VariantParams, attention_variant};

#[attention_variant]
#[derive(Clone, Debug, VariantParams)]
pub struct X {
    /// A number.
    pub a: f32,
}

fn main() {}
