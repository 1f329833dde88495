extern crate attn_core as attn;

use attn::VariantParams;
use attn::lang::Tensor1;

#[derive(Clone, VariantParams)]
struct V {
    a: f64,
    b: usize,
    c: Vec<f32>,
    #[shape(qo_heads)]
    d: Tensor1<bool>,
    e: [f32; 4],
}

fn main() {}
