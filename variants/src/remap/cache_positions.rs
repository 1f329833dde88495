use attn::lang::{AttentionVariant, KvIndex, RowIndex};
use attn::{VariantParams, attention_variant};

/// Positions in the cache of an endless text: they count the kept keys alone.
///
/// The text keeps its first keys and a window of the last ones (StreamingLLM, arXiv 2309.17453). Under
/// `remap(cache_positions(sink=.., window=..), inner)` the hooks of `inner` see positions that never exceed those of
/// training. Keys between the first ones and the window may be in the page table, or not: pages that left the window in
/// part keep their place in it. [`Streaming`](crate::Streaming) with the same parameters masks them.
#[derive(Clone, Copy, Debug, PartialEq, VariantParams)]
pub struct CachePositions {
    /// Keys at the start that are kept.
    #[require(sink >= 0)]
    pub sink: i32,
    /// The window in keys, that of the query included.
    #[require(window >= 1)]
    pub window: i32,
}

#[attention_variant(name = "cache_positions")]
impl AttentionVariant for CachePositions {
    fn remap_qo_pos(&self, at: RowIndex) -> i32 {
        at.qo_pos - (at.kv_len - self.sink - self.window).max(0)
    }

    fn remap_kv_pos(&self, at: KvIndex) -> i32 {
        let dropped = (at.kv_len - self.sink - self.window).max(0);
        if at.kv_pos < self.sink { at.kv_pos } else { at.kv_pos - dropped }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_the_kept_keys() {
        let positions = CachePositions { sink: 2, window: 3 };
        let kv = |kv_pos, kv_len| positions.remap_kv_pos(KvIndex { kv_pos, kv_len, ..KvIndex::default() });
        assert_eq!([kv(0, 9), kv(1, 9), kv(6, 9), kv(7, 9), kv(8, 9)], [0, 1, 2, 3, 4]);
        assert_eq!((kv(3, 5), kv(4, 5)), (3, 4), "nothing has left the window");
        let row = |qo_pos, kv_len| positions.remap_qo_pos(RowIndex { qo_pos, kv_len, ..RowIndex::default() });
        assert_eq!((row(8, 9), row(4, 5)), (4, 4));
    }
}
