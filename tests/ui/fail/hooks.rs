//! Hooks that do not fit together.

extern crate attn_core as attn;

use attn::lang::*;
use attn::{VariantParams, attention_variant};

include!("../structs.rs");
structs!(
    WeightUnderSoftmax DenominatorUnderSoftmax NormalizerWithoutWeight SinkUnderPlain MaskInTransform
    KvRangeWithoutMask
);

#[attention_variant]
impl AttentionVariant for WeightUnderSoftmax {
    fn weight(&self, logit: f32, row_max: f32, _at: LogitIndex) -> f32 {
        (logit - row_max).exp()
    }
}

#[attention_variant]
impl AttentionVariant for DenominatorUnderSoftmax {
    fn denominator(&self, _logit: f32, _row_max: f32, weight: f32, _at: LogitIndex) -> f32 {
        weight
    }
}

#[attention_variant]
impl AttentionVariant for NormalizerWithoutWeight {
    const NORMALIZER: Normalizer = Normalizer::Plain { divide: true };
}

#[attention_variant]
impl AttentionVariant for SinkUnderPlain {
    const NORMALIZER: Normalizer = Normalizer::Plain { divide: true };
    fn weight(&self, logit: f32, _row_max: f32, _at: LogitIndex) -> f32 {
        logit.max(0.0)
    }
    fn sink_logit(&self, _at: RowIndex) -> f32 {
        self.a
    }
}

#[attention_variant]
impl AttentionVariant for MaskInTransform {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        if at.kv_pos > at.qo_pos { f32::NEG_INFINITY } else { logit }
    }
}

#[attention_variant]
impl AttentionVariant for KvRangeWithoutMask {
    fn kv_range(&self, tile: QueryTile) -> (i32, i32) {
        (tile.qo_pos_min - self.n, tile.qo_pos_max + 1)
    }
}

fn main() {}
