//! Writing items down, once it is known where their tiles' states go.

use std::ops::Range;

use super::{WorkItem, place::Place, rows::RowTile, visible::Visible};
use crate::batch::Layout;

/// One arm's items, in the making.
pub(super) struct Emit<'a> {
    pub(super) layout: &'a Layout,
    /// Keys of a block.
    pub(super) align: u64,
    pub(super) items: &'a mut Vec<WorkItem>,
}

impl Emit<'_> {
    /// A piece of a tile: blocks counted from the first that it sees.
    #[inline]
    pub(super) fn piece(&mut self, tile: RowTile, seen: Visible, place: &mut Place, blocks: Range<u32>) {
        let request = tile.request as usize;
        let partial = place.slot;
        if partial >= 0 {
            place.slot += 1;
        }
        let key = |block: u32| (u64::from(seen.begin + block) * self.align).min(seen.keys.into()) as i32;
        let (kv_begin, kv_end) = if blocks.is_empty() { (0, 0) } else { (key(blocks.start), key(blocks.end)) };
        self.items.push(WorkItem {
            request: tile.request as i32,
            first_row: tile.first_row as i32,
            rows: tile.rows as i32,
            kv_begin,
            kv_end,
            partial,
            merge: place.merge,
            qo_token: self.layout.qo_indptr()[request],
            qo_len: self.layout.qo_len(request) as i32,
            kv_token: self.layout.kv_indptr()[request],
            kv_len: self.layout.kv_len(request) as i32,
            page: self.layout.pages().map_or(0, |pages| pages.indptr()[request]),
        });
    }
}
