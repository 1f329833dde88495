//! Block-sparse attention from block-sparse matrices: [`Bsr`], [`BlockMap`], [`VariableBlocks`].

pub(crate) mod block_lists;
mod block_map;
pub(crate) mod bsr;
mod error;
pub(crate) mod variable_blocks;

use attn::lang::{AttentionVariant, RowIndex, Tensor1, Tensor2};
use attn::{VariantParams, attention_variant};

pub use block_map::BlockMap;
pub use bsr::{Bsr, BsrMask};
pub use error::SparseError;
pub use variable_blocks::VariableBlocks;

use block_lists::BlockLists;

/// Block sparse: each block of queries attends to the blocks of keys that its row of a matrix names.
///
/// A request's queries are cut into blocks of `q_block`, its keys into blocks of `kv_block`; neither need be a power of
/// two. Query block `i` of request `b` is row `r = first[b] + i`. On KV head `g` it attends to the key blocks
/// `blocks[begin[g, r] + n]` for `n < count[g, r]`, in any order, each at most once. `kv_block = 1` is vector-sparse.
/// With `heads = 1` one head's lists serve all. Queries past a request's last row attend to nothing.
///
/// These are the matrices of FlashInfer's block-sparse wrappers (arXiv 2501.01005). `from_bsr`, `from_block_map` and
/// `variable` make them, and check their arrays.
#[derive(Clone, Debug, PartialEq, VariantParams)]
pub struct BlockSparse {
    /// Queries of a block.
    #[require(q_block >= 1)]
    pub q_block: i32,
    /// Keys of a block.
    #[require(kv_block >= 1)]
    pub kv_block: i32,
    /// KV heads with lists of their own; later heads use the lists of the last.
    #[require(heads >= 1)]
    pub heads: i32,
    /// Rows of all requests together: query blocks.
    #[require(rows >= 1)]
    pub rows: i32,
    /// Capacity of `blocks`.
    #[require(entries >= 1)]
    pub entries: i32,
    /// The first row of each request, and one past the last row.
    #[shape(batch + 1)]
    pub first: Tensor1<i32>,
    /// Index into `blocks` of each row's list.
    #[shape(heads, rows)]
    pub begin: Tensor2<i32>,
    /// Length of each row's list.
    #[shape(heads, rows)]
    #[require(count.as_slice().iter().all(|&n| n >= 0))]
    pub count: Tensor2<i32>,
    /// The lists: key blocks.
    #[shape(entries)]
    pub blocks: Tensor1<i32>,
}

#[attention_variant(name = "block_sparse")]
impl AttentionVariant for BlockSparse {
    fn kv_list_len(&self, at: RowIndex) -> i32 {
        let row = self.first[at.batch] + at.qo_row / self.q_block;
        if row < self.first[at.batch + 1] { self.count[[at.kv_head, row]] } else { 0 }
    }

    fn kv_list_block(&self, at: RowIndex, n: i32) -> i32 {
        self.blocks[self.begin[[at.kv_head, self.first[at.batch] + at.qo_row / self.q_block]] + n]
    }

    fn kv_list_block_size(&self) -> i32 {
        self.kv_block
    }

    fn kv_list_queries(&self) -> i32 {
        self.q_block
    }
}

impl BlockSparse {
    fn new(lists: &BlockLists) -> Self {
        let blocks = lists.blocks();
        BlockSparse {
            q_block: lists.q_block,
            kv_block: lists.kv_block,
            heads: lists.heads() as i32,
            rows: lists.rows() as i32,
            entries: blocks.len() as i32,
            first: lists.first(),
            begin: lists.begin(),
            count: lists.count(),
            blocks,
        }
    }

    /// From block-sparse matrices. Each request has one matrix for all KV heads, or one per KV head; all have the same
    /// block size.
    ///
    /// # Errors
    ///
    /// [`SparseError`] says which array is malformed, and where.
    ///
    /// ```
    /// # extern crate attn_core as attn;
    /// use attn_variants::block_sparse::{BlockSparse, Bsr};
    ///
    /// // 32 queries and 64 keys in blocks of 16 x 16: the diagonal, and the first block
    /// let matrix = Bsr { block: [16, 16], columns: 4, indptr: &[0, 1, 3], indices: &[0, 0, 1] };
    /// let sparse = BlockSparse::from_bsr(&[&[matrix]])?;
    /// assert_eq!((sparse.rows, sparse.count.as_slice()), (2, &[1, 2][..]));
    /// # Ok::<(), attn_variants::block_sparse::SparseError>(())
    /// ```
    pub fn from_bsr(requests: &[&[Bsr<'_>]]) -> Result<Self, SparseError> {
        Ok(Self::new(&bsr::lists(requests)?))
    }

    /// From a dense table of blocks for each request, of one head for all or of each KV head.
    ///
    /// # Errors
    ///
    /// [`SparseError`] says what is malformed.
    pub fn from_block_map(requests: &[BlockMap<'_>]) -> Result<Self, SparseError> {
        Ok(Self::new(&block_map::lists(requests)?))
    }

    /// One request with blocks of different sizes, in each KV head its own. Blocks are split into parts of the greatest
    /// common divisor of the sizes.
    ///
    /// Where that divisor is small, few queries share a list and keys are read once per list:
    /// [`BlockSparseMasked::variable`](crate::BlockSparseMasked::variable) is faster there.
    ///
    /// # Errors
    ///
    /// [`SparseError`] says what is malformed.
    pub fn variable(blocks: &VariableBlocks<'_>) -> Result<Self, SparseError> {
        Ok(Self::new(&variable_blocks::lists(blocks)?))
    }
}

#[cfg(test)]
mod tests;
