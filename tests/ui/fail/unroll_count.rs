extern crate attn_core as attn;

use attn::device_fn;

#[device_fn]
fn sum(n: i32) -> i32 {
    let mut sum = 0;
    #[unroll(twice)]
    for i in 0..n {
        sum += i;
    }
    sum
}

#[device_fn]
fn none(n: i32) -> i32 {
    let mut sum = 0;
    #[unroll(0)]
    for i in 0..n {
        sum += i;
    }
    sum
}

fn main() {}
