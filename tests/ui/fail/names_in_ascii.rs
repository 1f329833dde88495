extern crate attn_core as attn;

use attn::lang::*;
use attn::{VariantParams, attention_variant};

#[derive(Clone, Debug, VariantParams)]
pub struct Größe {
    /// A number.
    pub höhe: f32,
}

#[attention_variant]
impl AttentionVariant for Größe {
    fn logits_transform(&self, logit: f32, _at: LogitIndex) -> f32 {
        logit * self.höhe
    }
}

fn main() {}
