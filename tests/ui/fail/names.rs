//! Names that do not exist, and words of another hook.

extern crate attn_core as attn;

use attn::lang::*;
use attn::{VariantParams, attention_variant};

include!("../structs.rs");
structs!(
    UnknownIndexWord UnknownMethod UnknownRowMethod MethodOfTheOtherType RowAgainstPosition IndexDestructured
    KeyInQueryHook UnknownHook
);

#[attention_variant]
impl AttentionVariant for UnknownIndexWord {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        at.kv_pos <= at.q_pos
    }
}

#[attention_variant]
impl AttentionVariant for UnknownMethod {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        logit.tahn() + at.kv_pos.count_one() as f32 + logit.to_string().len() as f32
    }
}

#[attention_variant]
impl AttentionVariant for UnknownRowMethod {
    fn query_transform<R: Row>(&self, q: &mut R, _at: RowIndex) {
        q.rotate_halves(64, |_| (1.0, 0.0));
    }
}

#[attention_variant]
impl AttentionVariant for MethodOfTheOtherType {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        logit.count_ones() as f32 + at.kv_pos.sqrt()
    }
}

#[attention_variant]
impl AttentionVariant for RowAgainstPosition {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        at.kv_pos <= at.qo_row
    }
}

#[attention_variant]
impl AttentionVariant for IndexDestructured {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        let LogitIndex { kv_pos, .. } = at;
        kv_pos < 9
    }
}

#[attention_variant]
impl AttentionVariant for KeyInQueryHook {
    fn sink_logit(&self, at: RowIndex) -> f32 {
        at.kv_pos as f32
    }
}

#[attention_variant]
impl AttentionVariant for UnknownHook {
    fn logit_transform(&self, logit: f32, _at: LogitIndex) -> f32 {
        logit
    }
}

fn main() {}
