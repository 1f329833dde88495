use attn::lang::{AttentionVariant, Bits, LogitIndex, RowIndex, Tensor1, Tensor2};
use attn::{VariantParams, attention_variant};

use crate::block_sparse::{Bsr, BsrMask, SparseError, VariableBlocks, masked_bsr, masked_variable};

/// Block sparse with masks: blocks as in `block_sparse`, and a bit for each logit of each block.
///
/// The bits of a row of blocks are those of a matrix of `q_block` queries and of the keys of its list, one after the other, row by row from bit `first_bit[g, r]` on:
/// FlashInfer's packed masks, whose rows begin at whole bytes (arXiv 2501.01005). They are made by `from_bsr` and `variable`. Where every bit of every block is set,
/// `block_sparse` is the same and faster.
#[derive(Clone, Debug, PartialEq, VariantParams)]
pub struct BlockSparseMasked {
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
    /// Bits of all masks together.
    #[require(size >= 1)]
    pub size: i32,
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
    /// The first bit of a row's mask.
    #[shape(heads, rows)]
    pub first_bit: Tensor2<i32>,
    /// The lists.
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
        let place = at.kv_slot * self.kv_block + at.kv_pos % self.kv_block;
        self.bits[self.first_bit[[at.kv_head, row]] + at.qo_row % self.q_block * keys + place]
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
    /// From the matrices of each request and their masks: one for all KV heads, or one for each. All have the same blocks.
    ///
    /// # Errors
    ///
    /// [`SparseError`] says which array is malformed, and where.
    pub fn from_bsr(requests: &[&[(Bsr<'_>, BsrMask<'_>)]]) -> Result<Self, SparseError> {
        masked_bsr(requests)?.masked()
    }

    /// One request with blocks of any sizes, of each KV head its own, as blocks of `block` (queries, keys) with masks where they cross borders: 64 or 128
    /// queries times query heads of a KV head fill a tile, and 16 to 64 keys are read side by side.
    ///
    /// # Errors
    ///
    /// [`SparseError`] says what does not fit.
    pub fn variable(blocks: &VariableBlocks<'_>, block: [usize; 2]) -> Result<Self, SparseError> {
        masked_variable(blocks, block)?.masked()
    }
}
