extern crate attn_core as attn;

use attn::VariantParams;
use attn::lang::{Tensor1, Tensor2};

#[derive(Clone, VariantParams)]
struct V {
    #[shape(heads)]
    a: Tensor1<f32>,
    b: Tensor2<i32>,
    #[shape(4)]
    c: f32,
    #[default]
    d: f32,
    #[require()]
    e: i32,
    #[default(1.0)]
    #[default(2.0)]
    f: f32,
}

fn main() {}
