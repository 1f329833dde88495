//! Literals, and values of types that hooks do not have.

extern crate attn_core as attn;

use attn::lang::*;
use attn::{VariantParams, attention_variant};

include!("../structs.rs");
structs!(I16Literal UntypedLiteral HiddenLiteral UsizeAndF64 StructLiteral String ComparedTuples);

#[attention_variant]
impl AttentionVariant for I16Literal {
    fn logits_transform(&self, logit: f32, _at: LogitIndex) -> f32 {
        logit + 3i16 as f32
    }
}

#[attention_variant]
impl AttentionVariant for UntypedLiteral {
    fn logits_transform(&self, logit: f32, _at: LogitIndex) -> f32 {
        let mut n = 0;
        n += self.n;
        logit + n as f32
    }
}

#[attention_variant]
impl AttentionVariant for HiddenLiteral {
    fn logits_transform(&self, logit: f32, _at: LogitIndex) -> f32 {
        let high = (!0 >> 4) & self.u;
        let mut sum = high;
        for i in 0..4 {
            sum += self.u * i;
        }
        let (x, y) = (1, 2.0);
        logit + (sum + x) as f32 + y
    }
}

#[attention_variant]
impl AttentionVariant for UsizeAndF64 {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        let i = at.kv_pos as usize;
        let wide = logit as f64;
        (wide * 2.0f64) as f32 + i as f32
    }
}

#[derive(Clone, Debug, VariantParams)]
pub struct ConstantType;

#[attention_variant]
impl AttentionVariant for ConstantType {
    fn logits_transform(&self, logit: f32, _at: LogitIndex) -> f32 {
        logit * WIDE as f32
    }
}

const WIDE: f64 = 1.0;

#[attention_variant]
impl AttentionVariant for StructLiteral {
    fn logits_transform(&self, logit: f32, _at: LogitIndex) -> f32 {
        let range = std::ops::Range { start: 0, end: self.n };
        logit + range.start as f32
    }
}

#[attention_variant]
impl AttentionVariant for String {
    fn logits_transform(&self, logit: f32, _at: LogitIndex) -> f32 {
        let name = "cap";
        logit
    }
}

#[attention_variant]
impl AttentionVariant for ComparedTuples {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        (at.kv_pos, at.kv_len) < (at.qo_pos, 3) || *at == at.row
    }
}

fn main() {}
