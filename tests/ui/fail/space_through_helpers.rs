extern crate attn_core as attn;

use attn::lang::*;
use attn::{VariantParams, attention_variant, device_fn};

#[device_fn]
fn block(i: i32) -> i32 {
    i / 64
}

#[device_fn]
fn halves(i: i32) -> (i32, i32) {
    (i / 32, i % 32)
}

#[device_fn]
fn near(a: i32, b: i32, reach: i32) -> bool {
    (a - b).abs() <= reach
}

#[device_fn]
fn ordered(at: LogitIndex) -> bool {
    at.qo_token >= at.kv_pos
}

#[derive(Clone, Debug, VariantParams)]
pub struct X {
    pub n: i32,
    #[shape(qo_tokens)]
    pub t: Tensor1<i32>,
}

#[attention_variant]
impl AttentionVariant for X {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        let (y, x) = halves(at.qo_token);
        let (ky, kx) = halves(at.kv_pos);
        let right = near(at.qo_pos, at.kv_pos, self.n) && block(at.qo_head) == at.kv_head && x == kx;
        right
            && block(at.qo_token) == block(at.kv_pos)
            && y - ky == 0
            && near(at.qo_token, at.kv_pos, self.n)
            && self.t[block(at.kv_pos)] > 0
            && ordered(at)
    }
}

fn main() {}
