extern crate attn_core as attn;

use attn::VariantParams;
use attn::lang::{OutTensor1, Tensor1};

#[derive(Clone, VariantParams)]
struct V {
    a: f64,
    b: usize,
    c: Vec<f32>,
    #[shape(qo_heads)]
    d: Tensor1<u16>,
    e: [f32; 4],
    f: u8,
    #[monotone]
    #[shape(4)]
    g: OutTensor1,
}

fn main() {}
