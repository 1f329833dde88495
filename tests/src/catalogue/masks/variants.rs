//! Masks that are too special for stock variants, or that express a stock variant in another way.

use attn_core::lang::{AttentionVariant, LogitIndex, QueryTile, Tensor1};
use attn_core::{VariantParams, attention_variant};

/// Training of a draft head: sampled blocks see the prefix and, causally, themselves (JetSpec, arXiv 2606.18394).
///
/// Queries are the tokens of the blocks; keys are the prefix, then the same tokens.
#[derive(Clone, Copy, Debug, PartialEq, VariantParams)]
pub struct DraftTraining {
    /// Keys of the prefix.
    #[require(prefix >= 0)]
    pub prefix: i32,
    /// Tokens of a block.
    #[require(block >= 1)]
    pub block: i32,
}

#[attention_variant(name = "draft_training")]
impl AttentionVariant for DraftTraining {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        let key = at.kv_pos - self.prefix;
        let same_block = key / self.block == at.qo_row / self.block;
        key < 0 || same_block && key <= at.qo_row
    }
}

/// Causal documents by two tables: from `offsets[of_query[qo_token]]` up to the query.
#[derive(Clone, Debug, PartialEq, VariantParams)]
pub struct DocumentOffsets {
    /// Maximum number of documents of a request.
    #[require(documents >= 1)]
    pub documents: i32,
    /// Document of each query token.
    #[shape(qo_tokens)]
    pub of_query: Tensor1<i32>,
    /// First position of each document.
    #[shape(documents)]
    pub offsets: Tensor1<i32>,
}

#[attention_variant(name = "document_offsets")]
impl AttentionVariant for DocumentOffsets {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        self.offsets[self.of_query[at.qo_token]] <= at.kv_pos && at.kv_pos <= at.qo_pos
    }
}

/// Drops the second of every three keys, so that the mask depends on absolute positions.
#[derive(Clone, Copy, Debug, PartialEq, VariantParams)]
pub struct EveryThird;

#[attention_variant(name = "every_third")]
impl AttentionVariant for EveryThird {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        at.kv_pos % 3 != 1
    }
}

/// Adaptive span: each head has a learnt span with a soft end (arXiv 1905.07799).
///
/// Weights are multiplied by `min((span + ramp - distance) / ramp, 1)`. No tile classes are derived from a mask over
/// floats: `kv_range` bounds the keys of a tile instead.
#[derive(Clone, Debug, PartialEq, VariantParams)]
pub struct AdaptiveSpan {
    /// Length of the ramp, in keys.
    #[require(ramp > 0.0 && ramp <= 1e6)]
    pub ramp: f32,
    /// Number of keys with full weight, for each query head.
    #[shape(qo_heads)]
    #[require(span.as_slice().iter().all(|&keys| keys >= 0.0 && keys <= 1e6))]
    pub span: Tensor1<f32>,
}

#[attention_variant(name = "adaptive_span")]
impl AttentionVariant for AdaptiveSpan {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        let distance = at.qo_pos - at.kv_pos;
        distance >= 0 && (distance as f32) < self.span[at.qo_head] + self.ramp
    }

    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        let left = self.span[at.qo_head] + self.ramp - (at.qo_pos - at.kv_pos) as f32;
        logit + (left / self.ramp).min(1.0).ln()
    }

    fn kv_range(&self, tile: QueryTile) -> (i32, i32) {
        let mut longest: f32 = 0.0;
        for head in tile.qo_head_min..tile.qo_head_max + 1 {
            longest = longest.max(self.span[head]);
        }
        (tile.qo_pos_min - (longest + self.ramp) as i32, tile.qo_pos_max + 1)
    }
}
