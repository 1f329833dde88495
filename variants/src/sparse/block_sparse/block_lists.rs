//! Builder of block lists: rows of blocks, head by head and request by request.

use attn::lang::{Bits, Tensor1, Tensor2};

use super::error::{SparseError, count};
use crate::packed_bits::pack;

/// The rows of one KV head: for each, its list and its mask.
#[derive(Default)]
struct HeadRows {
    /// Index into `blocks` of a row's first block.
    begin: Vec<i32>,
    /// Blocks of a row.
    count: Vec<i32>,
    /// Index of a row's first mask bit.
    first_bit: Vec<i32>,
}

/// Block lists of all requests: what [`BlockSparse`](crate::BlockSparse) and
/// [`BlockSparseMasked`](crate::BlockSparseMasked) hold as tensors.
pub(crate) struct BlockLists {
    pub(crate) q_block: i32,
    pub(crate) kv_block: i32,
    heads: Vec<HeadRows>,
    first: Vec<i32>,
    blocks: Vec<i32>,
    /// Bytes of the masks within blocks.
    mask_bytes: Vec<u8>,
}

impl BlockLists {
    pub(crate) fn new([queries, keys]: [usize; 2], heads: usize) -> Result<Self, SparseError> {
        let size = |n: usize| i32::try_from(n).ok().filter(|n| (1..1 << 30).contains(n));
        let (Some(q_block), Some(kv_block)) = (size(queries), size(keys)) else {
            return Err(SparseError::Block { queries, keys });
        };
        let heads = (0..heads.max(1)).map(|_| HeadRows::default()).collect();
        Ok(BlockLists { q_block, kv_block, heads, first: vec![0], blocks: Vec::new(), mask_bytes: Vec::new() })
    }

    /// Adds the next row of a head. All heads get equally many rows before the request ends.
    pub(crate) fn push_row(&mut self, head: usize, blocks: impl IntoIterator<Item = i32>) -> Result<(), SparseError> {
        let begin = count("entries", self.blocks.len())?;
        self.blocks.extend(blocks);
        let first_bit = count("bits", self.mask_bytes.len().saturating_mul(8))?;
        let to = &mut self.heads[head];
        to.begin.push(begin);
        to.count.push(count("entries", self.blocks.len())? - begin);
        to.first_bit.push(first_bit);
        Ok(())
    }

    /// Adds the next row of a head, with the list of the row before.
    pub(crate) fn repeat_row(&mut self, head: usize) {
        let to = &mut self.heads[head];
        for list in [&mut to.begin, &mut to.count, &mut to.first_bit] {
            list.extend(list.last().copied());
        }
    }

    /// Sets the mask of the row added last: bits by query, then by key of its list.
    pub(crate) fn push_mask(&mut self, bits: impl Iterator<Item = bool>) {
        pack(bits, &mut self.mask_bytes);
    }

    /// Sets the mask of the row added last from little-endian bits.
    pub(crate) fn push_packed_mask(&mut self, bytes: &[u8]) {
        self.mask_bytes.extend_from_slice(bytes);
    }

    /// Ends a request.
    pub(crate) fn end_request(&mut self) -> Result<(), SparseError> {
        self.first.push(count("rows", self.heads[0].begin.len())?);
        Ok(())
    }

    /// KV heads.
    pub(crate) fn heads(&self) -> usize {
        self.heads.len()
    }

    /// Rows of each head, at least one.
    pub(crate) fn rows(&self) -> usize {
        self.heads[0].begin.len().max(1)
    }

    /// A (heads, rows) tensor of one number per row; 0 where there are no rows.
    fn table(&self, of: impl Fn(&HeadRows) -> &Vec<i32>) -> Tensor2<i32> {
        let values: Vec<i32> = self
            .heads
            .iter()
            .flat_map(|head| of(head).iter().copied().chain(of(head).is_empty().then_some(0)))
            .collect();
        // every head has equally many rows, each index below 2^31
        Tensor2::new(values, [self.heads(), self.rows()]).unwrap_or_default()
    }

    /// (heads, rows): where each row's list begins.
    pub(crate) fn begin(&self) -> Tensor2<i32> {
        self.table(|head| &head.begin)
    }

    /// (heads, rows): blocks of each row's list.
    pub(crate) fn count(&self) -> Tensor2<i32> {
        self.table(|head| &head.count)
    }

    /// (heads, rows): the first bit of each row's mask.
    pub(crate) fn first_bit(&self) -> Tensor2<i32> {
        self.table(|head| &head.first_bit)
    }

    /// The first row of each request, and one past the last row.
    pub(crate) fn first(&self) -> Tensor1<i32> {
        self.first.clone().into()
    }

    /// All lists, one after the other; a tensor is never empty.
    pub(crate) fn blocks(&self) -> Tensor1<i32> {
        self.blocks.iter().copied().chain(self.blocks.is_empty().then_some(0)).collect()
    }

    /// All masks, one after the other; a tensor is never empty.
    pub(crate) fn mask_bits(&self) -> Tensor1<Bits> {
        let bytes = self.mask_bytes.iter().copied();
        bytes.chain(self.mask_bytes.is_empty().then_some(0)).map(Bits).collect::<Vec<_>>().into()
    }

    /// The number of mask bits, at least 8.
    ///
    /// # Errors
    ///
    /// More than an `i32` counts.
    pub(crate) fn mask_size(&self) -> Result<i32, SparseError> {
        count("bits", self.mask_bytes.len().max(1).saturating_mul(8))
    }
}
