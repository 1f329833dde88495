use attn::lang::{AttentionVariant, KvIndex, LogitIndex, RowIndex};
use attn::{VariantParams, attention_variant};

/// Batches in one sequence: blocks of positions that are sequences of their own, all of one length.
///
/// Attends where `qo_pos / block == kv_pos / block`. Under `remap(batchify(block=..), inner)` the hooks of `inner` see
/// `qo_pos % block` and `kv_pos % block` (FlexAttention, arXiv 2412.05496, nests masks like this).
#[derive(Clone, Copy, Debug, PartialEq, VariantParams)]
pub struct Batchify {
    /// Positions of a block.
    #[require(block >= 1)]
    pub block: i32,
}

#[attention_variant(name = "batchify")]
impl AttentionVariant for Batchify {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        at.qo_pos / self.block == at.kv_pos / self.block
    }

    fn remap_qo_pos(&self, at: RowIndex) -> i32 {
        at.qo_pos % self.block
    }

    fn remap_kv_pos(&self, at: KvIndex) -> i32 {
        at.kv_pos % self.block
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{at, keys};

    #[test]
    fn positions_count_within_blocks() {
        let batchify = Batchify { block: 3 };
        assert_eq!(keys(&batchify, 4, 8), [false, false, false, true, true, true, false, false]);
        assert_eq!(batchify.remap_qo_pos(at(7, 0).row), 1);
        assert_eq!(batchify.remap_kv_pos(KvIndex { kv_pos: 5, ..KvIndex::default() }), 2);
    }
}
