extern crate attn_core as attn;

use attn::VariantParams;

#[derive(Clone, VariantParams)]
struct V {
    #[default("much")]
    a: f32,
    #[default(4)]
    #[require(b >= 0.5)]
    b: i32,
}

fn main() {}
