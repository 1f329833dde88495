//! Arrays: lengths and indices.

extern crate attn_core as attn;

use attn::lang::*;
use attn::{VariantParams, attention_variant, device_fn};

include!("../structs.rs");
structs!(Array ArrayLength ArrayOfHelper ArrayElementAssigned IndexMethod);

#[attention_variant]
impl AttentionVariant for Array {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        let table = [1.0, 2.0, 3.0, self.a];
        let mut k = 0;
        k += 1;
        let i = at.qo_head as usize;
        table[4] + table[k] + table[(at.kv_pos % 4) as usize] + table[(at.kv_pos & 3) as usize] * logit
    }
}

#[attention_variant]
impl AttentionVariant for ArrayLength {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        let table = [0.0; LENGTH];
        let other: [f32; LENGTH] = table;
        logit
    }
}

const LENGTH: usize = 4;

#[attention_variant]
impl AttentionVariant for ArrayOfHelper {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        let both = pair(logit);
        both[0] + both[1]
    }
}

#[device_fn]
fn pair(x: f32) -> [f32; 2] {
    [x, -x]
}

#[attention_variant]
impl AttentionVariant for ArrayElementAssigned {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        let tables = (logit, [1.0, 2.0]);
        tables.1[0] = 3.0;
        logit
    }
}

#[attention_variant]
impl AttentionVariant for IndexMethod {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        let table = [1.0, 2.0];
        let mut sum = logit;
        for i in 0..2 {
            sum += table[i] * i.count_ones() as f32 + table[i - 1];
        }
        sum
    }
}

fn main() {}
