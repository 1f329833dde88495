//! Which keys a rank of context parallelism holds.

/// The keys of a rank: runs of `interleave` keys go to ranks 0, 1, .., `ranks - 1`, and round again, as in decode
/// context parallelism (DCP of vLLM and SGLang). `ranks` and `interleave` are at least 1, `rank` is below `ranks`. The
/// variant `remap(interleaved_positions(..), inner)` gives `inner` the positions of the whole sequence.
///
/// ```
/// use attn_core::parallel::InterleavedShard;
///
/// let shard = |rank| InterleavedShard { ranks: 2, rank, interleave: 4 };
/// // keys 0 to 3 and 8, 9; keys 4 to 7
/// assert_eq!([shard(0).kv_len(10), shard(1).kv_len(10)], [6, 4]);
/// assert_eq!(shard(1).position(2), 6);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterleavedShard {
    /// Number of ranks.
    pub ranks: usize,
    /// The rank.
    pub rank: usize,
    /// Neighbouring keys that stay together.
    pub interleave: usize,
}

impl InterleavedShard {
    /// The number of keys that the rank holds of a request of `kv_len` keys; 0 where other ranks have them all.
    #[must_use]
    pub fn kv_len(&self, kv_len: usize) -> usize {
        let round = self.ranks * self.interleave;
        let rest = (kv_len % round).saturating_sub(self.rank * self.interleave);
        kv_len / round * self.interleave + rest.min(self.interleave)
    }

    /// The position in the whole sequence of a key of the rank.
    #[must_use]
    pub fn position(&self, own: usize) -> usize {
        (own / self.interleave * self.ranks + self.rank) * self.interleave + own % self.interleave
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_of_all_ranks_are_those_of_the_request() {
        for (ranks, interleave) in [(1, 1), (2, 1), (3, 4), (8, 5)] {
            for kv_len in [0, 1, 4, 17, 40, 119, 120] {
                let shards = (0..ranks).map(|rank| InterleavedShard { ranks, rank, interleave });
                let of = |shard: InterleavedShard| (0..shard.kv_len(kv_len)).map(move |own| shard.position(own));
                let mut all: Vec<_> = shards.flat_map(of).collect();
                all.sort_unstable();
                assert_eq!(all, (0..kv_len).collect::<Vec<_>>(), "{ranks} ranks, interleave {interleave}");
            }
        }
    }
}
