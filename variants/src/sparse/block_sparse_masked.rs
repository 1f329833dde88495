use attn::lang::{AttentionVariant, Bits, LogitIndex, RowIndex, Tensor1, Tensor2};
use attn::{VariantParams, attention_variant};

use super::block_sparse::block_lists::BlockLists;
use super::block_sparse::bsr::masked_lists as lists_of_bsr;
use super::block_sparse::variable_blocks::masked_lists as lists_of_variable_blocks;
use super::block_sparse::{Bsr, BsrMask, SparseError, VariableBlocks};

/// Block sparse with masks: blocks as in `block_sparse`, and a bit for each logit of each block.
///
/// The bits of a row start at `first_bit[g, r]`. They are a row-major matrix of `q_block` queries by the keys of the
/// row's list: FlashInfer's packed masks, whose rows begin at whole bytes (arXiv 2501.01005). `from_bsr` and `variable`
/// make them. Where every bit is set, `block_sparse` computes the same and is faster.
#[derive(Clone, Debug, PartialEq, VariantParams)]
pub struct BlockSparseMasked {
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
    /// Bits of all masks together.
    #[require(size >= 1)]
    pub size: i32,
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
    /// Index of the first bit of each row's mask.
    #[shape(heads, rows)]
    pub first_bit: Tensor2<i32>,
    /// The lists: key blocks.
    #[shape(entries)]
    pub blocks: Tensor1<i32>,
    /// The masks.
    #[shape(size)]
    pub bits: Tensor1<Bits>,
}

#[attention_variant(name = "block_sparse_masked")]
impl AttentionVariant for BlockSparseMasked {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        let row = self.first[at.batch] + at.qo_row / self.q_block;
        let keys = self.count[[at.kv_head, row]] * self.kv_block;
        let column = at.kv_slot * self.kv_block + at.kv_pos % self.kv_block;
        self.bits[self.first_bit[[at.kv_head, row]] + at.qo_row % self.q_block * keys + column]
    }

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

impl BlockSparseMasked {
    fn new(lists: &BlockLists) -> Result<Self, SparseError> {
        let blocks = lists.blocks();
        Ok(BlockSparseMasked {
            q_block: lists.q_block,
            kv_block: lists.kv_block,
            heads: lists.heads() as i32,
            rows: lists.rows() as i32,
            entries: blocks.len() as i32,
            size: lists.mask_size()?,
            first: lists.first(),
            begin: lists.begin(),
            count: lists.count(),
            first_bit: lists.first_bit(),
            blocks,
            bits: lists.mask_bits(),
        })
    }

    /// From block-sparse matrices and their masks. Each request has one matrix for all KV heads, or one per KV head;
    /// all have the same block size.
    ///
    /// # Errors
    ///
    /// [`SparseError`] says which array is malformed, and where.
    pub fn from_bsr(requests: &[&[(Bsr<'_>, BsrMask<'_>)]]) -> Result<Self, SparseError> {
        Self::new(&lists_of_bsr(requests)?)
    }

    /// One request with blocks of different sizes, in each KV head its own, as lists of blocks of one size, `block`
    /// (queries, keys), with masks where those cross borders. Good sizes: 64 or 128 divided by the query heads per KV
    /// head, which fills a Q tile, and 16 to 64 keys.
    ///
    /// # Errors
    ///
    /// [`SparseError`] says what is malformed.
    pub fn variable(blocks: &VariableBlocks<'_>, block: [usize; 2]) -> Result<Self, SparseError> {
        Self::new(&lists_of_variable_blocks(blocks, block)?)
    }
}
