//! Indexers of sparse attention: scores of keys for queries, and the best of them as lists that attention reads.
//!
//! An index key is small, of one head, and beside the keys of attention. [`index_scores`] gives each key a score, as
//! the lightning indexer of DeepSeek-V3.2 does, and [`select_tokens`] the lists of a `token_list`. [`block_scores`]
//! gives each block of keys the maximum of its keys for each index head, as MiniMax-M3 does, and [`select_pages`] the
//! lists of a `page_list`.
//!
//! This module defines the scores, the choice, their checks, and both on the CPU. The CUDA backend takes the same
//! descriptors. Choices on equal scores are equal; scores are sums in f32, whose order is that of a kernel.

mod args;
mod check;
mod rows;
mod scores;
mod select;

pub use args::{IndexKeys, IndexQueries, ScoresMut, TopKLists, Visible};
pub use check::{ScoreSizes, SelectSizes, check_block_scores, check_index_scores, check_select, check_shape};
pub use scores::{block_scores, index_scores};
pub use select::{select_pages, select_tokens};

/// Dimensions of index heads are multiples of this.
pub const DIM_STEP: usize = 32;
/// The largest dimension of an index head.
pub const MAX_DIM: usize = 256;
/// The most index heads.
pub const MAX_HEADS: usize = 128;
/// Sizes of blocks are multiples of this.
pub const BLOCK_STEP: usize = 32;

#[cfg(test)]
mod tests;
