use attn::lang::{AttentionVariant, KvIndex, RowIndex, Tensor1};
use attn::{VariantParams, attention_variant};

/// Interleaved positions: under `remap`, keys are those of one rank of context parallelism.
///
/// Runs of `interleave` tokens go to ranks 0, 1, .., `ranks - 1`, and round again, as in decode context parallelism
/// (DCP of vLLM and SGLang, for caches like that of MLA, arXiv 2405.04434). Under `remap(interleaved_positions(..),
/// inner)` the hooks of `inner` see `(kv_pos / interleave * ranks + rank) * interleave + kv_pos % interleave` and
/// `of_query[qo_token]`. So `remap(.., causal)` on each rank, merged over ranks, is causal attention. Entry `s` of a
/// cache that compresses each `m` tokens to one stands at its last token, `ranks = m` and `rank = m - 1`.
#[derive(Clone, Debug, PartialEq, VariantParams)]
pub struct InterleavedPositions {
    /// Number of ranks.
    #[require(ranks >= 1)]
    pub ranks: i32,
    /// The rank whose keys these are.
    #[require(rank >= 0 && rank < ranks)]
    pub rank: i32,
    /// Neighbouring tokens that stay together.
    #[default(1)]
    #[require(interleave >= 1)]
    pub interleave: i32,
    /// Position of each query token in the whole sequence.
    #[shape(qo_tokens)]
    pub of_query: Tensor1<i32>,
}

#[attention_variant(name = "interleaved_positions")]
impl AttentionVariant for InterleavedPositions {
    fn remap_qo_pos(&self, at: RowIndex) -> i32 {
        self.of_query[at.qo_token]
    }

    fn remap_kv_pos(&self, at: KvIndex) -> i32 {
        (at.kv_pos / self.interleave * self.ranks + self.rank) * self.interleave + at.kv_pos % self.interleave
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_of_all_ranks_are_the_sequence() {
        for interleave in [1, 2, 5] {
            let of = |rank| InterleavedPositions { ranks: 3, rank, interleave, of_query: [7].into() };
            let key = |kv_pos| KvIndex { kv_pos, ..KvIndex::default() };
            let keys = |rank| (0..10).map(move |kv_pos| of(rank).remap_kv_pos(key(kv_pos)));
            let mut all: Vec<i32> = (0..3).flat_map(keys).collect();
            all.sort_unstable();
            assert_eq!(all, (0..30).collect::<Vec<_>>(), "{interleave}");
            let own = keys(1).all(|position| position / interleave % 3 == 1);
            assert!(own, "{interleave}");
            assert_eq!(of(2).remap_qo_pos(RowIndex { qo_pos: 3, ..RowIndex::default() }), 7);
        }
    }
}
