use attn::lang::{AttentionVariant, LogitIndex};
use attn::{VariantParams, attention_variant};

/// Block causal: a query attends to all of its own block and to the blocks before it.
///
/// Attends where `kv_pos / block <= qo_pos / block`. Used for video frames that are generated one after the other
/// (MAGI-1, arXiv 2505.13211) and for the blocks of a diffusion language model (BD3-LM, arXiv 2503.09573). `block = 1`
/// is `causal`.
#[derive(Clone, Copy, Debug, PartialEq, VariantParams)]
pub struct BlockCausal {
    /// Positions of a block.
    #[require(block >= 1)]
    pub block: i32,
}

#[attention_variant(name = "block_causal")]
impl AttentionVariant for BlockCausal {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        at.kv_pos / self.block <= at.qo_pos / self.block
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::keys;

    #[test]
    fn blocks_up_to_the_query() {
        assert_eq!(keys(&BlockCausal { block: 3 }, 4, 8), [true, true, true, true, true, true, false, false]);
        assert_eq!(keys(&BlockCausal { block: 1 }, 1, 3), [true, true, false]);
    }
}
