//! Lists of blocks as they are put together, and the variants that are made of them.

use attn::lang::{Bits, Tensor1, Tensor2};

use super::{
    BlockSparse,
    error::{SparseError, count},
};
use crate::BlockSparseMasked;

/// The rows of one head.
#[derive(Default)]
struct Head {
    begin: Vec<i32>,
    count: Vec<i32>,
    /// In bits.
    mask: Vec<i32>,
}

/// Lists of all requests.
pub(crate) struct Lists {
    q_block: i32,
    kv_block: i32,
    heads: Vec<Head>,
    first: Vec<i32>,
    blocks: Vec<i32>,
    /// Bytes of the masks in the blocks.
    bytes: Vec<u8>,
}

impl Lists {
    pub(crate) fn new([queries, keys]: [usize; 2], heads: usize) -> Result<Self, SparseError> {
        let size = |n: usize| i32::try_from(n).ok().filter(|n| (1..1 << 30).contains(n));
        let (Some(q_block), Some(kv_block)) = (size(queries), size(keys)) else {
            return Err(SparseError::Block { queries, keys });
        };
        let heads = (0..heads.max(1)).map(|_| Head::default()).collect();
        Ok(Lists { q_block, kv_block, heads, first: vec![0], blocks: Vec::new(), bytes: Vec::new() })
    }

    /// The next row of a head. (All heads get as many before the request ends.)
    pub(crate) fn row(&mut self, head: usize, blocks: impl IntoIterator<Item = i32>) -> Result<(), SparseError> {
        let begin = count("entries", self.blocks.len())?;
        self.blocks.extend(blocks);
        let mask = count("bits", self.bytes.len().saturating_mul(8))?;
        let to = &mut self.heads[head];
        to.begin.push(begin);
        to.count.push(count("entries", self.blocks.len())? - begin);
        to.mask.push(mask);
        Ok(())
    }

    /// The next row of a head, whose list is that of the row before.
    pub(crate) fn same_row(&mut self, head: usize) {
        let to = &mut self.heads[head];
        for list in [&mut to.begin, &mut to.count, &mut to.mask] {
            list.extend(list.last().copied());
        }
    }

    /// The mask of the row that was added last: little-endian bits, by query, then by key of its list.
    pub(crate) fn mask(&mut self, bits: impl Iterator<Item = bool>) {
        pack(bits, &mut self.bytes);
    }

    /// The mask of that row as it is.
    pub(crate) fn packed_mask(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Ends a request.
    pub(crate) fn end_request(&mut self) -> Result<(), SparseError> {
        self.first.push(count("rows", self.heads[0].begin.len())?);
        Ok(())
    }

    /// Rows of every head in turn, at least one.
    fn table(&self, of: impl Fn(&Head) -> &Vec<i32>) -> Tensor2<i32> {
        let values: Vec<i32> = self
            .heads
            .iter()
            .flat_map(|head| of(head).iter().copied().chain(of(head).is_empty().then_some(0)))
            .collect();
        // as many of each head, each below 2^31
        Tensor2::new(values, [self.heads.len(), self.rows()]).unwrap_or_default()
    }

    fn rows(&self) -> usize {
        self.heads[0].begin.len().max(1)
    }

    fn blocks(&self) -> Vec<i32> {
        self.blocks.iter().copied().chain(self.blocks.is_empty().then_some(0)).collect()
    }

    pub(crate) fn sparse(self) -> BlockSparse {
        let blocks = self.blocks();
        BlockSparse {
            q_block: self.q_block,
            kv_block: self.kv_block,
            heads: self.heads.len() as i32,
            rows: self.rows() as i32,
            entries: blocks.len() as i32,
            begin: self.table(|head| &head.begin),
            count: self.table(|head| &head.count),
            first: self.first.into(),
            blocks: blocks.into(),
        }
    }

    pub(crate) fn masked(self) -> Result<BlockSparseMasked, SparseError> {
        let size = count("bits", self.bytes.len().max(1).saturating_mul(8))?;
        let blocks = self.blocks();
        let bits: Vec<Bits> = self.bytes.iter().copied().chain(self.bytes.is_empty().then_some(0)).map(Bits).collect();
        Ok(BlockSparseMasked {
            q_block: self.q_block,
            kv_block: self.kv_block,
            heads: self.heads.len() as i32,
            rows: self.rows() as i32,
            entries: blocks.len() as i32,
            size,
            begin: self.table(|head| &head.begin),
            count: self.table(|head| &head.count),
            first_bit: self.table(|head| &head.mask),
            first: self.first.into(),
            blocks: blocks.into(),
            bits: Tensor1::from(bits),
        })
    }
}

/// Bits into bytes, the first into the lowest, from a whole byte on.
pub(crate) fn pack(bits: impl Iterator<Item = bool>, bytes: &mut Vec<u8>) {
    for (i, bit) in bits.enumerate() {
        if i % 8 == 0 {
            bytes.push(0);
        }
        if let Some(byte) = bytes.last_mut() {
            *byte |= u8::from(bit) << (i % 8);
        }
    }
}
