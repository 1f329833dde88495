//! Keys from a list of blocks: virtual keys, and how many of them a tile has.
//!
//! The coordinates of a tile's first row select the list of the tile. Virtual key `v` of a tile is key `v % block_size`
//! of block `v / block_size` of that list.

use super::{
    PlanError,
    count::count_i32,
    tile::{TileRows, VisibleBlocks},
};
use crate::{
    batch::{Layout, row_index},
    expr::Variant,
    lang::RowIndex,
    spec::Heads,
};

/// A variant whose keys come from lists of blocks.
#[derive(Clone, Copy)]
pub(crate) struct KvLists<'a> {
    variant: &'a Variant,
    /// Keys per block.
    block_size: u64,
    /// Consecutive queries that share a list.
    pub(super) queries: u64,
}

/// The key lists of a variant; `None` for a variant without.
pub(crate) fn kv_lists_of(variant: &Variant) -> Option<KvLists<'_>> {
    let (block_size, queries) = variant.kv_list_sizes()?;
    Some(KvLists { variant, block_size: block_size.max(1) as u64, queries: queries.max(1) as u64 })
}

impl KvLists<'_> {
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

    /// The virtual keys of a tile: the longest of its lists over the KV heads.
    pub(super) fn visible(
        &self,
        layout: &Layout,
        heads: Heads,
        tile: TileRows,
        align: u32,
    ) -> Result<VisibleBlocks, PlanError> {
        let first = |kv_head| row_index(layout, heads, tile.request as usize, kv_head, tile.first_row as usize);
        let keys = (0..heads.kv as usize).map(|kv_head| self.keys(first(kv_head))).max().unwrap_or(0);
        let keys = count_i32("virtual keys of one list", keys)? as u32;
        Ok(VisibleBlocks { keys, begin: 0, end: keys.div_ceil(align) })
    }
}
