extern crate attn_core as attn;

use attn::device_type;

#[device_type]
#[derive(Clone, Copy)]
pub struct Wide {
    pub slope: f64,
    pub count: usize,
    pub index: attn::lang::RowIndex,
}

#[device_type]
#[derive(Clone)]
pub struct Named {
    pub name: String,
    pub list: Vec<f32>,
}

#[device_type]
#[derive(Clone, Copy)]
pub struct Outer {
    pub inner: Nested,
}

#[derive(Clone, Copy)]
pub struct Nested {
    pub x: f32,
}

#[device_type]
#[derive(Clone, Copy)]
pub struct Five(f32, f32, f32, f32, f32);

#[device_type]
#[derive(Clone, Copy)]
pub struct Nothing;

fn main() {}
