use attn::lang::{AttentionVariant, LogitIndex, Tensor4};
use attn::{VariantParams, attention_variant};

/// Block mask: a table says which blocks of queries attend to which blocks of keys.
///
/// Attends where `blocks[batch, qo_head, qo_row / q_block, kv_pos / kv_block]`. The table holds the blocks that a
/// router chose, with `q_block = 1`, as in MoBA (arXiv 2502.13189) and in the selected branch of NSA (arXiv
/// 2502.11089), or a fixed pattern (BigBird, arXiv 2007.14062). A tile whose blocks are all unset is skipped. Compose
/// it with `causal`.
#[derive(Clone, Debug, PartialEq, VariantParams)]
pub struct BlockMask {
    /// Queries of a block, counted within each request.
    #[require(q_block >= 1)]
    pub q_block: i32,
    /// Keys of a block.
    #[require(kv_block >= 1)]
    pub kv_block: i32,
    /// Query blocks of the table; later blocks use its last row.
    #[require(q_blocks >= 1)]
    pub q_blocks: i32,
    /// Key blocks of the table; later blocks use its last column.
    #[require(kv_blocks >= 1)]
    pub kv_blocks: i32,
    /// Whether a block of queries attends to a block of keys.
    #[shape(batch, qo_heads, q_blocks, kv_blocks)]
    pub blocks: Tensor4<bool>,
}

#[attention_variant(name = "block_mask")]
impl AttentionVariant for BlockMask {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        self.blocks[[at.batch, at.qo_head, at.qo_row / self.q_block, at.kv_pos / self.kv_block]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_formula() {
        let blocks = Tensor4::new(vec![true, false, true, false, true, true], [1, 1, 2, 3]).expect("six");
        let mask = BlockMask { q_block: 2, kv_block: 3, q_blocks: 2, kv_blocks: 3, blocks };
        let keys = |qo_row| -> Vec<bool> {
            let attends = |kv_pos| {
                let mut at = crate::testing::at(100, kv_pos);
                at.row.qo_row = qo_row;
                mask.logits_mask(at)
            };
            (0..10).map(attends).collect()
        };
        let (yes, no) = ([true; 3], [false; 3]);
        assert_eq!(keys(1), [&yes[..], &no, &yes, &[true]].concat());
        assert_eq!(keys(2), [&no[..], &yes, &yes, &[true]].concat());
        assert_eq!(keys(7), keys(2));
    }
}
