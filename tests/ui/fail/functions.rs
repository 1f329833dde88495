//! Calls of what is no function of a hook.

extern crate attn_core as attn;

use attn::lang::*;
use attn::{VariantParams, attention_variant, device_fn};

include!("../structs.rs");
structs!(HookCallsHook AssociatedFunction StdFunction UnknownName HelperGenerics);

#[attention_variant]
impl AttentionVariant for HookCallsHook {
    fn logits_transform(&self, logit: f32, _at: LogitIndex) -> f32 {
        self.scaled(logit)
    }
}

impl HookCallsHook {
    fn scaled(&self, x: f32) -> f32 {
        x * self.a
    }
}

#[attention_variant]
impl AttentionVariant for AssociatedFunction {
    fn logits_transform(&self, logit: f32, _at: LogitIndex) -> f32 {
        Self::scaled(logit)
    }
}

impl AssociatedFunction {
    fn scaled(x: f32) -> f32 {
        x
    }
}

#[derive(Clone, Debug, VariantParams)]
pub struct Near;

#[attention_variant]
impl AttentionVariant for Near {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        at.qo_pos - at.kv_pos < 9
    }
}

#[derive(Clone, Debug, VariantParams)]
pub struct HookOfAnother;

#[attention_variant]
impl AttentionVariant for HookOfAnother {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        Near.logits_mask(at) || Near::logits_mask(&Near, at)
    }
}

#[attention_variant]
impl AttentionVariant for StdFunction {
    fn logits_transform(&self, logit: f32, _at: LogitIndex) -> f32 {
        let mut a = logit;
        let mut b = self.a;
        std::mem::swap(&mut a, &mut b);
        a + b
    }
}

#[derive(Clone, Debug, VariantParams)]
pub struct Recursion {
    pub n: i32,
}

#[attention_variant]
impl AttentionVariant for Recursion {
    fn logits_transform(&self, logit: f32, _at: LogitIndex) -> f32 {
        power(logit, self.n)
    }
}

#[device_fn]
fn power(x: f32, n: i32) -> f32 {
    if n == 0 { 1.0 } else { x * power(x, n - 1) }
}

#[attention_variant]
impl AttentionVariant for UnknownName {
    fn logits_transform(&self, logit: f32, _at: LogitIndex) -> f32 {
        logit * cap
    }
}

#[attention_variant]
impl AttentionVariant for HelperGenerics {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        times::<{ 1 + 2 }>(logit)
    }
}

#[device_fn]
fn times<const N: i32>(x: f32) -> f32 {
    x * N as f32
}

#[device_fn]
fn of_any<T>(x: T) -> f32 {
    1.0
}

#[device_fn]
fn total(xs: &[f32], n: usize) -> f32 {
    xs[n]
}

#[device_fn]
fn generic<T: Copy>(x: T) -> f32 {
    let _ = x;
    0.0
}

#[derive(Clone, Debug, VariantParams)]
pub struct HelperNotMarked;

#[attention_variant]
impl AttentionVariant for HelperNotMarked {
    fn logits_transform(&self, logit: f32, _at: LogitIndex) -> f32 {
        double(logit) + quadruple(logit)
    }
    fn logits_mask(&self, at: LogitIndex) -> bool {
        helpers::near(at.qo_pos, at.kv_pos)
    }
}

#[device_fn]
fn quadruple(x: f32) -> f32 {
    2.0 * double(x)
}

mod helpers {
    pub fn near(a: i32, b: i32) -> bool {
        a - b < 4
    }
}

fn double(x: f32) -> f32 {
    x * 2.0
}

fn main() {}
