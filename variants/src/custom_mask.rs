use attn::lang::{AttentionVariant, Bits, LogitIndex, Tensor1};
use attn::{VariantParams, attention_variant};

/// A mask of one's own: one bit for each query and key of each request.
///
/// Attends where bit `offset[batch] + qo_row * kv_len + kv_pos` is set: the packed masks of FlashInfer (arXiv 2501.01005), with
/// `offset` in bits, and little-endian bits. Nothing else is known of it, so most tiles are masked bit by bit: where a
/// formula says the same, write the formula.
#[derive(Clone, Debug, PartialEq, VariantParams)]
pub struct CustomMask {
    /// Bits of all requests together.
    #[require(size >= 1)]
    pub size: i32,
    /// The masks of the requests, one after the other, each row by row.
    #[shape(size)]
    pub bits: Tensor1<Bits>,
    /// The first bit of each request.
    #[shape(batch)]
    pub offset: Tensor1<i32>,
}

#[attention_variant(name = "custom_mask")]
impl AttentionVariant for CustomMask {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        self.bits[self.offset[at.batch] + at.qo_row * at.kv_len + at.kv_pos]
    }
}
