use attn::lang::{AttentionVariant, KvIndex, RowIndex};
use attn::{VariantParams, attention_variant};

/// Chunks of a longer sequence: under `remap`, positions count from where each chunk starts.
///
/// Under `remap(chunk_positions(qo_start=.., kv_start=..), inner)` the hooks of `inner` see the positions
/// `qo_start + qo_row` and `kv_start + kv_pos`: one step of ring attention (arXiv 2310.01889), where queries and keys
/// are chunks of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, VariantParams)]
pub struct ChunkPositions {
    /// Position of the first query of a request.
    pub qo_start: i32,
    /// Position of the first key of a request.
    pub kv_start: i32,
}

#[attention_variant(name = "chunk_positions")]
impl AttentionVariant for ChunkPositions {
    fn remap_qo_pos(&self, at: RowIndex) -> i32 {
        self.qo_start + at.qo_row
    }

    fn remap_kv_pos(&self, at: KvIndex) -> i32 {
        self.kv_start + at.kv_pos
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_from_the_start_of_the_chunks() {
        let chunk = ChunkPositions { qo_start: 100, kv_start: 50 };
        assert_eq!(chunk.remap_qo_pos(RowIndex { qo_row: 3, qo_pos: 9, ..RowIndex::default() }), 103);
        assert_eq!(chunk.remap_kv_pos(KvIndex { kv_pos: 4, ..KvIndex::default() }), 54);
    }
}
