//! Keys from a list of blocks: virtual keys, and the keys that they stand for.
//!
//! The coordinates of a tile's first row select the list of the tile. Virtual key `v` of a tile is key `v % block_size`
//! of block `v / block_size` of that list.

use super::Variant;
use crate::lang::RowIndex;

/// A variant whose keys come from lists of blocks.
#[derive(Clone, Copy)]
pub(crate) struct KvLists<'a> {
    variant: &'a Variant,
    /// Keys per block.
    block_size: u64,
    /// Consecutive queries that share a list.
    pub(crate) queries: u64,
}

impl<'a> KvLists<'a> {
    /// The key lists of a variant; `None` for a variant without.
    pub(crate) fn of(variant: &'a Variant) -> Option<Self> {
        let (block_size, queries) = variant.kv_list_sizes()?;
        Some(KvLists { variant, block_size: block_size.max(1) as u64, queries: queries.max(1) as u64 })
    }

    /// Number of virtual keys in the list of a row.
    pub(crate) fn keys(&self, at: RowIndex) -> u64 {
        self.variant.kv_list_len(at).max(0) as u64 * self.block_size
    }

    /// The key of a virtual key, and the index of its block in the list; `None` for padding.
    pub(crate) fn key(&self, at: RowIndex, virtual_key: u64) -> Option<(usize, i32)> {
        let n = i32::try_from(virtual_key / self.block_size).ok()?;
        let block = u64::try_from(self.variant.kv_list_block(at, n)).ok()?;
        let key = block * self.block_size + virtual_key % self.block_size;
        (key < at.kv_len as u64).then_some((key as usize, n))
    }
}
