extern crate attn_core as attn;

use attn::device_type;

#[device_type]
#[derive(Clone)]
pub struct Line {
    pub slope: f32,
}

fn main() {}
