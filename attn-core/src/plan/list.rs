//! Keys from a list of blocks: virtual keys, and how many of them a tile has.
//!
//! A list is asked for with the index words of the first row of a tile. Virtual key `v` of a tile is the `v % block_size`-th key of the block
//! that is number `v / block_size` in its list.

use super::{
    PlanError, row_index,
    rows::{RowTile, count_i32},
    visible::Visible,
};
use crate::{batch::Layout, expr::Variant, lang::RowIndex, spec::Heads};

/// A variant whose keys come from lists.
#[derive(Clone, Copy)]
pub(crate) struct Lists<'a> {
    variant: &'a Variant,
    /// Keys of a block.
    block_size: u64,
    /// Consecutive queries that share a list.
    pub(super) queries: u64,
}

/// The lists of a variant that has them.
pub(crate) fn lists_of(variant: &Variant) -> Option<Lists<'_>> {
    let (block_size, queries) = variant.kv_list_sizes()?;
    Some(Lists { variant, block_size: block_size.max(1) as u64, queries: queries.max(1) as u64 })
}

impl Lists<'_> {
    /// Virtual keys of the rows that share a list with this one.
    pub(crate) fn keys(&self, at: RowIndex) -> u64 {
        self.variant.kv_list_len(at).max(0) as u64 * self.block_size
    }

    /// The key that a virtual key stands for, and the number of its block in the list; `None` for padding.
    pub(crate) fn key(&self, at: RowIndex, virtual_key: u64) -> Option<(usize, i32)> {
        let n = i32::try_from(virtual_key / self.block_size).ok()?;
        let block = u64::try_from(self.variant.kv_list_block(at, n)).ok()?;
        let key = block * self.block_size + virtual_key % self.block_size;
        (key < at.kv_len as u64).then_some((key as usize, n))
    }

    /// The virtual keys of a tile: as many as the longest of its lists has, over the KV heads.
    pub(super) fn visible(
        &self,
        layout: &Layout,
        heads: Heads,
        tile: RowTile,
        align: u32,
    ) -> Result<Visible, PlanError> {
        let first = |kv_head| row_index(layout, heads, tile.request as usize, kv_head, tile.first_row as usize);
        let keys = (0..heads.kv as usize).map(|kv_head| self.keys(first(kv_head))).max().unwrap_or(0);
        let keys = count_i32("virtual keys of one list", keys)? as u32;
        Ok(Visible { keys, begin: 0, end: keys.div_ceil(align) })
    }
}
