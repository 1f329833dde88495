//! Tiles of a mixed list: rows that run together, and the units of rows whose states are merged together.

use crate::{
    batch::Layout,
    plan::{q_tiles::QTile, visible::VisibleBlocks},
};

/// Rows of one request, or of several neighbouring requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct TileRows {
    /// First request.
    pub(super) request: u32,
    /// Number of requests, up to the last that has rows here.
    pub(super) requests: u32,
    /// First PackGQA row, counted from the first row of `request`.
    pub(super) first_row: u32,
    pub(super) rows: u32,
}

/// The two parts of a mixed list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Decode,
    Prefill,
}

/// A tile of rows against the keys of a segment, or of their request.
#[derive(Clone, Copy, Debug)]
pub(super) struct MixedTile {
    pub(super) rows: TileRows,
    pub(super) part: Part,
    /// Index into the layout's segments; `None`: all keys of the request.
    pub(super) segment: Option<u32>,
    /// First unit of the tile, and the number of units.
    pub(super) unit: u32,
    pub(super) units: u32,
    pub(super) visible: VisibleBlocks,
    /// KV splits, each of which is an item.
    pub(super) splits: u32,
    /// Partial row of the first row of the next split; -1 if the tile writes the output.
    pub(super) partial: i32,
}

/// Up to [`MERGE_ROWS`](super::MERGE_ROWS) rows of one request, which are merged together.
#[derive(Clone, Copy, Debug)]
pub(super) struct MergeUnit {
    pub(super) request: u32,
    pub(super) first_row: u32,
    pub(super) rows: u32,
}

impl TileRows {
    /// The rows of each request, as a Q tile.
    pub(super) fn of_requests(&self, layout: &Layout, group: u32) -> impl Iterator<Item = QTile> {
        let (mut first, mut left) = (self.first_row, self.rows);
        let requests = self.request..self.request + self.requests;
        requests.filter_map(move |request| {
            let packed = layout.qo_len(request as usize) as u32 * group;
            let rows = packed.saturating_sub(first).min(left);
            let tile = QTile { request, first_row: first, rows };
            first = first.saturating_sub(packed);
            left -= rows;
            (rows > 0).then_some(tile)
        })
    }
}

impl From<QTile> for TileRows {
    fn from(QTile { request, first_row, rows }: QTile) -> Self {
        TileRows { request, requests: 1, first_row, rows }
    }
}
