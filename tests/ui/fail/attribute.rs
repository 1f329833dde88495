//! The attribute: its arguments, and where it stands.

extern crate attn_core as attn;

use attn::lang::*;
use attn::{VariantParams, attention_variant};

include!("../structs.rs");
structs!(AttributeArgument AttributeName);

#[attention_variant(nam = "x")]
impl AttentionVariant for AttributeArgument {
    fn logits_transform(&self, logit: f32, _at: LogitIndex) -> f32 {
        logit
    }
}

#[attention_variant(name = "SoftCap")]
impl AttentionVariant for AttributeName {
    fn logits_transform(&self, logit: f32, _at: LogitIndex) -> f32 {
        logit
    }
}

#[derive(Clone, Debug, VariantParams)]
pub struct AnotherTrait;

#[attention_variant]
impl Default for AnotherTrait {
    fn default() -> Self {
        AnotherTrait
    }
}

#[attention_variant]
#[derive(Clone, Debug, VariantParams)]
pub struct NotAnImpl {
    pub a: f32,
}

fn main() {}
