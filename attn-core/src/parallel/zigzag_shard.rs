//! Which queries a rank of prefill context parallelism holds.

use std::ops::Range;

/// The tokens of a rank: of `2 ranks` chunks of a request, those with the numbers `rank` and `2 ranks - 1 - rank`, so
/// that under a causal mask all ranks have the same work (zigzag; Llama 3's context parallelism, arXiv 2407.21783).
/// Chunks begin at multiples of `page`. `ranks` and `page` are at least 1, `rank` is below `ranks`.
///
/// ```
/// use attn_core::parallel::ZigzagShard;
///
/// let shard = |rank| ZigzagShard { ranks: 2, rank, page: 4 };
/// assert_eq!(shard(0).chunks(30), [0..8, 24..30]);
/// assert_eq!(shard(1).chunks(30), [8..16, 16..24]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZigzagShard {
    /// Number of ranks.
    pub ranks: usize,
    /// The rank.
    pub rank: usize,
    /// Tokens that stay together.
    pub page: usize,
}

impl ZigzagShard {
    /// The tokens of the rank, of a request of `len` tokens. A short request leaves chunks empty.
    #[must_use]
    pub fn chunks(&self, len: usize) -> [Range<usize>; 2] {
        [self.rank, 2 * self.ranks - 1 - self.rank].map(|chunk| self.begin(chunk, len)..self.begin(chunk + 1, len))
    }

    /// The first token of a chunk.
    fn begin(&self, chunk: usize, len: usize) -> usize {
        let pages = len.div_ceil(self.page);
        // the first chunks are the longer ones, as the last one may end within a page
        ((chunk * pages).div_ceil(2 * self.ranks) * self.page).min(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tokens_of_all_ranks_are_those_of_the_request() {
        for (ranks, page) in [(1, 1), (2, 16), (3, 5), (8, 64)] {
            for len in [0, 1, 63, 64, 65, 1000, 4096] {
                let shards = (0..ranks).map(|rank| ZigzagShard { ranks, rank, page });
                let mut all: Vec<_> = shards.clone().flat_map(|shard| shard.chunks(len)).flatten().collect();
                all.sort_unstable();
                assert_eq!(all, (0..len).collect::<Vec<_>>(), "{ranks} ranks, pages of {page}");
                let lens: Vec<_> = shards.map(|of| of.chunks(len).iter().map(Range::len).sum::<usize>()).collect();
                let apart = lens.iter().max().unwrap_or(&0) - lens.iter().min().unwrap_or(&0);
                assert!(apart <= 2 * page, "{lens:?}");
            }
        }
    }
}
