extern crate attn_core as attn;

use attn::device_type;

#[device_type]
#[derive(Clone, Copy)]
pub struct Line<T> {
    pub slope: T,
}

#[device_type]
#[derive(Clone, Copy)]
pub struct Row<const N: usize> {
    pub x: [f32; N],
}

#[device_type(packed)]
#[derive(Clone, Copy)]
pub struct Packed {
    pub x: f32,
}

#[device_type]
pub fn line() -> f32 {
    0.0
}

fn main() {}
