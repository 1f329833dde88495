use attn::lang::{AttentionVariant, LogitIndex};
use attn::{VariantParams, attention_variant};

/// Block diffusion: blocks of noisy tokens that see themselves and the clean blocks before them.
///
/// The sequence is `length` noisy tokens, then the same `length` tokens clean, both in blocks of `block`, so positions
/// run to `2 * length`. A noisy block sees itself and the clean blocks before it; a clean block sees the clean blocks
/// up to itself (training of BD3-LM, arXiv 2503.09573, appendix B.6).
#[derive(Clone, Copy, Debug, PartialEq, VariantParams)]
pub struct BlockDiffusion {
    /// Tokens of each half.
    #[require(length >= 1)]
    pub length: i32,
    /// Tokens of a block.
    #[require(block >= 1)]
    pub block: i32,
}

#[attention_variant(name = "block_diffusion")]
impl AttentionVariant for BlockDiffusion {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        let clean_query = at.qo_pos >= self.length;
        let clean_key = at.kv_pos >= self.length;
        let query_block = at.qo_pos % self.length / self.block;
        let key_block = at.kv_pos % self.length / self.block;
        if !clean_key {
            !clean_query && key_block == query_block
        } else if clean_query {
            key_block <= query_block
        } else {
            key_block < query_block
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::keys;

    #[test]
    fn noisy_and_clean_blocks() {
        // noisy 00112, clean 00112
        let variant = BlockDiffusion { length: 5, block: 2 };
        let seen = |qo_pos| keys(&variant, qo_pos, 10).into_iter().map(u8::from).collect::<Vec<_>>();
        assert_eq!(seen(1), [1, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(seen(2), [0, 0, 1, 1, 0, 1, 1, 0, 0, 0]);
        assert_eq!(seen(4), [0, 0, 0, 0, 1, 1, 1, 1, 1, 0]);
        assert_eq!(seen(5), [0, 0, 0, 0, 0, 1, 1, 0, 0, 0]);
        assert_eq!(seen(9), [0, 0, 0, 0, 0, 1, 1, 1, 1, 1]);
    }
}
