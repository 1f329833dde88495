//! The arguments of scores and of choices.

use crate::ops::{Array, ArrayMut, PageTableRows};
use crate::tensor::{TensorMut, TensorRef};

/// Index keys of the requests of a batch, of one head, in f16 or bf16. The last dimension is contiguous.
#[derive(Clone, Copy, Debug)]
pub enum IndexKeys<'a> {
    /// Packed, request by request.
    Ragged {
        /// (key tokens, dim).
        keys: TensorRef<'a>,
        /// `[requests + 1]` prefix sums of the numbers of keys, from 0.
        kv_indptr: Array<'a, i32>,
    },
    /// In pages. Slots past the keys of a request are never read.
    Paged {
        /// (pages, slots of a page, dim).
        keys: TensorRef<'a>,
        /// The pages of the requests.
        rows: PageTableRows<'a>,
        /// `[requests]` numbers of keys.
        kv_lens: Array<'a, i32>,
    },
}

impl<'a> IndexKeys<'a> {
    /// The tensor.
    #[must_use]
    pub fn keys(&self) -> &TensorRef<'a> {
        match self {
            IndexKeys::Ragged { keys, .. } | IndexKeys::Paged { keys, .. } => keys,
        }
    }
}

/// Which keys of its request a query is given scores of: always the first ones.
#[derive(Clone, Copy, Debug)]
pub enum Visible<'a> {
    /// All.
    All,
    /// Those up to its own: queries are the last tokens of their request.
    Causal,
    /// `[qo tokens]` how many; at most as many as there are. A query at position t of a cache that compresses m tokens
    /// to one key sees `(t + 1) / m` of them.
    Counts(Array<'a, i32>),
}

/// Index queries of a batch.
#[derive(Clone, Copy, Debug)]
pub struct IndexQueries<'a> {
    /// (qo tokens, index heads, dim), of the type of the keys. The last dimension is contiguous.
    pub q: TensorRef<'a>,
    /// `[requests + 1]` prefix sums of the numbers of queries, from 0. Rows of `q` past the last are padding: they have
    /// no scores, and a count of 0.
    pub qo_indptr: Array<'a, i32>,
    /// The keys that get scores.
    pub visible: Visible<'a>,
}

/// Where scores are written.
#[derive(Debug)]
pub struct ScoresMut<'a> {
    /// (qo tokens, keys) of keys, or (qo tokens, index heads, blocks) of blocks, in f32. The last dimension is
    /// contiguous, and its extent is the capacity: the most keys or blocks of a request. What is past a query's last
    /// visible key is not written.
    pub scores: TensorMut<'a>,
    /// `[qo tokens]` how many scores each query has: keys or blocks.
    pub counts: ArrayMut<'a, i32>,
    /// A word in device memory, to which a kernel adds the number of keys without a score: past the capacity, where
    /// they are left out, or outside of the pool or the page table, where they are -inf. On the CPU such a key is an
    /// error instead.
    pub status: Option<ArrayMut<'a, u32>>,
}

impl<'a> ScoresMut<'a> {
    /// Scores and their counts.
    #[must_use]
    pub fn new(scores: TensorMut<'a>, counts: ArrayMut<'a, i32>) -> Self {
        ScoresMut { scores, counts, status: None }
    }
}

/// Lists that a choice writes, as `token_list` and `page_list` take them.
#[derive(Debug)]
pub struct TopKLists<'a> {
    /// `[rows * capacity]`: positions of keys or blocks in rising order, then 0.
    pub lists: ArrayMut<'a, i32>,
    /// `[rows]`: their numbers.
    pub counts: ArrayMut<'a, i32>,
}

impl<'a> TopKLists<'a> {
    /// Lists and their lengths.
    #[must_use]
    pub fn new(lists: ArrayMut<'a, i32>, counts: ArrayMut<'a, i32>) -> Self {
        TopKLists { lists, counts }
    }
}
