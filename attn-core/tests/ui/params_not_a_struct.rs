extern crate attn_core as attn;

use attn::VariantParams;

#[derive(Clone, VariantParams)]
struct Tuple(f32);

#[derive(Clone, VariantParams)]
enum Choice {
    One,
}

fn main() {}
