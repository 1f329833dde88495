//! Block-sparse attention from matrices of blocks: [`Bsr`], [`BlockMap`], [`VariableBlocks`].

mod bsr;
mod error;
mod lists;
mod map;
mod variable;

use attn::lang::{AttentionVariant, RowIndex, Tensor1, Tensor2};
use attn::{VariantParams, attention_variant};

pub(crate) use bsr::masked as masked_bsr;
pub use bsr::{Bsr, BsrMask};
pub use error::SparseError;
pub(crate) use lists::{Lists, pack};
pub use map::BlockMap;
pub use variable::VariableBlocks;
pub(crate) use variable::masked as masked_variable;

/// Block sparse: each block of queries attends to the blocks of keys that its row of a matrix names.
///
/// Queries of a request are cut into blocks of `q_block`, keys into blocks of `kv_block`, neither a power of two; block of queries `i` of
/// request `b` and KV head `g` attends to the blocks `blocks[begin[g, r] + n]`, `n < count[g, r]`, `r = first[b] + i`, in any order, each
/// once. `kv_block = 1` is vector-sparse. One head's lists serve all where `heads = 1`; queries past a request's last row attend to nothing. These are the matrices of
/// FlashInfer's block-sparse wrappers (arXiv 2501.01005); they are made by `from_bsr`, `from_block_map` and `variable`, which check them.
#[derive(Clone, Debug, PartialEq, VariantParams)]
pub struct BlockSparse {
    /// Queries of a block.
    #[require(q_block >= 1)]
    pub q_block: i32,
    /// Keys of a block.
    #[require(kv_block >= 1)]
    pub kv_block: i32,
    /// KV heads with lists of their own; those past the last have its lists.
    #[require(heads >= 1)]
    pub heads: i32,
    /// Blocks of queries of all requests together.
    #[require(rows >= 1)]
    pub rows: i32,
    /// Room for the entries of all lists.
    #[require(entries >= 1)]
    pub entries: i32,
    /// The first row of each request, and one past the last row of all.
    #[shape(batch + 1)]
    pub first: Tensor1<i32>,
    /// Where the list of a row begins.
    #[shape(heads, rows)]
    pub begin: Tensor2<i32>,
    /// How many blocks a row's list has.
    #[shape(heads, rows)]
    #[require(count.as_slice().iter().all(|&n| n >= 0))]
    pub count: Tensor2<i32>,
    /// The lists.
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
    /// From the matrices of each request: one for all KV heads, or one for each. All have the same blocks.
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
        Ok(bsr::lists(requests)?.sparse())
    }

    /// From a table of blocks for each request: of one head for all, or of each.
    ///
    /// # Errors
    ///
    /// [`SparseError`] says what does not fit.
    pub fn from_block_map(requests: &[BlockMap<'_>]) -> Result<Self, SparseError> {
        Ok(map::lists(requests)?.sparse())
    }

    /// One request with rows and columns of blocks of any sizes, of each KV head its own: blocks are cut into parts of the greatest common divisors of
    /// the sizes.
    ///
    /// Where the sizes of rows have none above a few, few queries share a list, and keys are read again for each:
    /// [`BlockSparseMasked::variable`](crate::BlockSparseMasked::variable) is faster then.
    ///
    /// # Errors
    ///
    /// [`SparseError`] says what does not fit.
    pub fn variable(blocks: &VariableBlocks<'_>) -> Result<Self, SparseError> {
        Ok(variable::lists(blocks)?.sparse())
    }
}

#[cfg(test)]
mod tests;
