extern crate attn_core as attn;

use attn::VariantParams;
use attn::lang::{Tensor1, Tensor2};

#[derive(Clone, VariantParams)]
struct V {
    scale: f32,
    width: i32,
    #[shape(qo_head)]
    a: Tensor1<f32>,
    #[shape(scale)]
    b: Tensor1<f32>,
    #[shape(qo_heads, 2)]
    c: Tensor1<f32>,
    #[shape(width << 1, width.pow(2))]
    d: Tensor2<f32>,
    #[shape(2.0)]
    e: Tensor1<f32>,
}

fn main() {}
