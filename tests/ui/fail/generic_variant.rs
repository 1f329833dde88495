extern crate attn_core as attn;

use attn::lang::*;
use attn::{VariantParams, attention_variant};

#[derive(Clone, Debug, VariantParams)]
pub struct Windowed<const N: i32>;

#[attention_variant]
impl<const N: i32> AttentionVariant for Windowed<N> {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        at.kv_pos < N
    }
}

#[derive(Clone, Debug, VariantParams)]
pub struct Blocked<const N: i32, const ALL: bool>;

#[attention_variant(name = "blocked", instances(4, (8, LIMIT)))]
impl<const N: i32, const ALL: bool> AttentionVariant for Blocked<N, ALL> {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        at.kv_pos < N || ALL
    }
}

const LIMIT: bool = true;

#[derive(Clone, Debug, VariantParams)]
pub struct Plain;

#[attention_variant(instances(4))]
impl AttentionVariant for Plain {}

fn main() {}
