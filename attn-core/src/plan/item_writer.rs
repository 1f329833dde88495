//! Writes the items of a branch after slots have been assigned.

use std::ops::Range;

use super::{WorkItem, q_tiles::QTile, slots::TileSlots, visible::VisibleBlocks};
use crate::batch::Layout;

/// Appends the items of one branch to a list.
pub(super) struct ItemWriter<'a> {
    pub(super) layout: &'a Layout,
    /// Keys per block.
    pub(super) align: u64,
    pub(super) items: &'a mut Vec<WorkItem>,
}

impl ItemWriter<'_> {
    /// Appends one KV split of a tile; `blocks` count from the first visible block of the tile.
    #[inline]
    pub(super) fn write(&mut self, tile: QTile, visible: VisibleBlocks, slots: &mut TileSlots, blocks: Range<u32>) {
        let request = tile.request as usize;
        let partial = slots.next_slot;
        if partial >= 0 {
            slots.next_slot += 1;
        }
        let key = |block: u32| (u64::from(visible.begin + block) * self.align).min(visible.keys.into()) as i32;
        let (kv_begin, kv_end) = if blocks.is_empty() { (0, 0) } else { (key(blocks.start), key(blocks.end)) };
        self.items.push(WorkItem {
            request: tile.request as i32,
            first_row: tile.first_row as i32,
            rows: tile.rows as i32,
            kv_begin,
            kv_end,
            partial,
            merge: slots.merge,
            qo_token: self.layout.qo_indptr()[request],
            qo_len: self.layout.qo_len(request) as i32,
            kv_token: self.layout.kv_indptr()[request],
            kv_len: self.layout.kv_len(request) as i32,
            page: self.layout.pages().map_or(0, |pages| pages.indptr()[request]),
        });
    }
}
