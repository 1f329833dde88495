use attn::lang::{AttentionVariant, LogitIndex};
use attn::{VariantParams, attention_variant};

/// Chunks: a query attends to the keys of its own chunk of the sequence.
///
/// Attends where `qo_pos / chunk == kv_pos / chunk`. Composed with `causal` it is the local attention of Llama 4
/// (`attention_chunk_size`, 8192); it is the block-local attention of arXiv 1904.10509, section 4.2.
#[derive(Clone, Copy, Debug, PartialEq, VariantParams)]
pub struct Chunked {
    /// Positions of a chunk.
    #[require(chunk >= 1)]
    pub chunk: i32,
}

#[attention_variant(name = "chunked")]
impl AttentionVariant for Chunked {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        at.qo_pos / self.chunk == at.kv_pos / self.chunk
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::keys;

    #[test]
    fn keys_of_the_same_chunk() {
        assert_eq!(keys(&Chunked { chunk: 3 }, 4, 8), [false, false, false, true, true, true, false, false]);
        assert_eq!(keys(&Chunked { chunk: 1 }, 1, 3), [false, true, false]);
        assert_eq!(keys(&Chunked { chunk: i32::MAX }, 1, 3), [true; 3]);
    }
}
