//! Q tiles: rows that run together, and the units of rows whose states are merged together.

use std::ops::Range;

use super::WorkItem;
use crate::{batch::Layout, lang::QueryTile, spec::Heads};

/// PackGQA rows of one request, or of several neighbouring requests: row `r` of a request is query `r / group` under
/// head `r % group` of the KV head's group.
#[derive(Clone, Copy, Debug)]
pub(super) struct TileRows {
    /// First request.
    pub(super) request: u32,
    /// Number of requests, up to the last that has rows here.
    pub(super) requests: u32,
    /// First row, counted from the first row of `request`.
    pub(super) first_row: u32,
    pub(super) rows: u32,
}

/// The blocks `begin..end` of keys that a tile may attend to. Blocks have `kv_align` keys; the request has `keys` keys
/// in total.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct VisibleBlocks {
    pub(super) keys: u32,
    pub(super) begin: u32,
    pub(super) end: u32,
}

impl VisibleBlocks {
    /// All keys, in blocks of `align` keys.
    pub(super) fn all(keys: u32, align: u32) -> Self {
        VisibleBlocks { keys, begin: 0, end: keys.div_ceil(align) }
    }

    /// Number of visible blocks.
    #[inline]
    pub(super) fn blocks(&self) -> u32 {
        self.end - self.begin
    }

    /// The smallest range that contains both.
    pub(super) fn join(self, other: VisibleBlocks) -> VisibleBlocks {
        match (self.blocks(), other.blocks()) {
            (_, 0) => self,
            (0, _) => other,
            _ => VisibleBlocks {
                keys: self.keys.max(other.keys), // of two key lists, the longer
                begin: self.begin.min(other.begin),
                end: self.end.max(other.end),
            },
        }
    }
}

/// A tile of rows against the keys of a segment; without levels the keys of their request.
#[derive(Clone, Copy, Debug)]
pub(super) struct QTile {
    pub(super) rows: TileRows,
    /// Number of the segment; without levels the request; [`NO_KEYS`].
    pub(super) segment: u32,
    /// The part of the list that runs the tile.
    pub(super) part: u32,
    pub(super) visible: VisibleBlocks,
    /// KV splits, each of which is an item; 0 if the part does not run the tile.
    pub(super) splits: u32,
    /// Partial row of the first row in the next split; -1 if the tile writes the output.
    pub(super) partial: i32,
    /// Index of the merge of a flat list, or -1.
    pub(super) merge: i32,
    /// In a mixed list the first merge unit of the rows, and the number of units.
    pub(super) units: [u32; 2],
}

/// In place of a segment's number: a request without keys has none.
pub(super) const NO_KEYS: u32 = u32::MAX;

/// Up to [`MERGE_ROWS`](super::MERGE_ROWS) rows of one request, which a mixed list merges together.
#[derive(Clone, Copy, Debug)]
pub(super) struct MergeUnit {
    pub(super) request: u32,
    pub(super) first_row: u32,
    pub(super) rows: u32,
    /// States of each row. Once they have entries in `merge_parts`: the next entry.
    pub(super) states: i32,
    /// Whether the rows are merged; else an item writes their output.
    pub(super) merged: bool,
}

impl QTile {
    pub(super) fn new(rows: TileRows, segment: u32, part: u32) -> Self {
        let visible = VisibleBlocks::default();
        QTile { rows, segment, part, visible, splits: 1, partial: -1, merge: -1, units: [0; 2] }
    }

    /// The merge units of a mixed list.
    pub(super) fn units(&self) -> Range<usize> {
        self.units[0] as usize..(self.units[0] + self.units[1]) as usize
    }
}

impl TileRows {
    /// The rows of an item.
    #[inline]
    pub(super) fn of(item: &WorkItem) -> Self {
        let [request, requests, first_row, rows] =
            [item.request, item.requests, item.first_row, item.rows].map(|n| n as u32);
        TileRows { request, requests, first_row, rows }
    }

    /// The rows of each request.
    pub(super) fn of_requests(&self, layout: &Layout, group: u32) -> impl Iterator<Item = TileRows> {
        let (mut first, mut left) = (self.first_row, self.rows);
        let requests = self.request..self.request + self.requests;
        requests.filter_map(move |request| {
            let packed = layout.qo_len(request as usize) as u32 * group;
            let rows = packed.saturating_sub(first).min(left);
            let tile = TileRows { request, requests: 1, first_row: first, rows };
            first = first.saturating_sub(packed);
            left -= rows;
            (rows > 0).then_some(tile)
        })
    }

    /// The coordinates of rows of one request, with the heads of another tile.
    #[inline]
    pub(super) fn query_tile(&self, layout: &Layout, group: u32, heads: QueryTile) -> QueryTile {
        let request = self.request as usize;
        let (qo_len, kv_len) = (layout.qo_len(request) as i32, layout.kv_len(request) as i32);
        let last_row = self.first_row + self.rows - 1;
        // decode has one query and many tiles, so that this avoids a division
        let (first, last) = if last_row < group { (0, 0) } else { (self.first_row / group, last_row / group) };
        let (first, last) = (first as i32, last as i32);
        let first_query = layout.qo_indptr()[request];
        let pos = |row: i32| row + (kv_len - qo_len);
        QueryTile {
            batch: self.request as i32,
            qo_row_min: first,
            qo_row_max: last,
            qo_pos_min: pos(first),
            qo_pos_max: pos(last),
            qo_token_min: first_query + first,
            qo_token_max: first_query + last,
            qo_len,
            kv_len,
            ..heads
        }
    }
}

/// All heads: one work list serves all of them.
pub(super) fn all_heads(heads: Heads) -> QueryTile {
    QueryTile { qo_head_max: heads.qo as i32 - 1, kv_head_max: heads.kv as i32 - 1, ..QueryTile::default() }
}
