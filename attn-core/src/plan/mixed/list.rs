//! Mixed work lists: items of decode and of prefill, and the merges of their partial states.

use bytemuck::{Pod, Zeroable};

/// Greatest number of rows of a merge.
pub const MERGE_ROWS: u32 = 16;

/// One unit of work for one KV head: rows of one request, or of several neighbouring requests, against a range of keys
/// that all of them have.
///
/// Row `r` of an item is PackGQA row `first_row + r`, counted from the first row of `request` over the requests after
/// it: query token `qo_token + (first_row + r) / group` under query head `kv_head * group + (first_row + r) % group`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct MixedItem {
    /// First request of the rows.
    pub request: i32,
    /// Number of requests from the first to the last that has rows here; 1 unless requests share keys.
    pub requests: i32,
    /// First PackGQA row, counted from the first row of `request`.
    pub first_row: i32,
    /// PackGQA rows; 0 in an unused entry.
    pub rows: i32,
    /// Logical position of the first key of the KV range.
    pub kv_begin: i32,
    /// One past the logical position of the last key.
    pub kv_end: i32,
    /// Logical position of the segment's first key; 0 without levels.
    pub kv_first: i32,
    /// Memory index of the segment's first key: a token of ragged keys, or an entry of the page table.
    pub memory: i32,
    /// Index of the segment's first key among preprocessed keys.
    pub pass: i32,
    /// 1 if no logit of the item is masked for any of its requests (the tile is full). Not determined for an item of
    /// one request without levels.
    pub full: i32,
    /// First *row* of partial states: row `r` of the item has partial row `partial + r`. -1: the item writes the
    /// output.
    pub partial: i32,
    /// First packed query token of `request`. This and the following fields repeat the batch, so that a kernel needs no
    /// second lookup.
    pub qo_token: i32,
    /// Queries of `request`.
    pub qo_len: i32,
    /// First packed key token of `request`, as in the coordinates of a key: the sum of the keys of all requests before.
    pub kv_token: i32,
    /// Keys of `request`, over all of its segments.
    pub kv_len: i32,
    #[doc(hidden)]
    pub _pad: i32,
}

/// Up to [`MERGE_ROWS`] rows of one request whose partial states are merged.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct MixedMerge {
    /// Request within the batch.
    pub request: i32,
    /// First PackGQA row within the request.
    pub first_row: i32,
    /// PackGQA rows.
    pub rows: i32,
    /// First of its parts, an index into [`MixedList::merge_parts`].
    pub first: i32,
    /// Number of parts; 0 in an unused entry.
    pub count: i32,
    /// First packed query token of the request.
    pub qo_token: i32,
    /// Queries of the request.
    pub qo_len: i32,
    /// Keys of the request.
    pub kv_len: i32,
}

/// The work of one batch in two parts, for one KV head; every KV head does the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MixedList {
    /// Query heads per KV head.
    pub group: u32,
    /// Greatest number of PackGQA rows of an item: of the decode part, and of the prefill part.
    pub tile_rows: [u32; 2],
    /// Items of the decode part.
    pub decode: Vec<MixedItem>,
    /// `[workers + 1]`: worker `w` runs items `workers[w] .. workers[w + 1]` of the decode part in order, possibly
    /// none.
    pub workers: Vec<i32>,
    /// Items of the prefill part, longest first: one for each worker.
    pub prefill: Vec<MixedItem>,
    /// Merges, in the order of requests and of their rows.
    pub merges: Vec<MixedMerge>,
    /// For each part of each merge the partial row of the merge's first row, in the order of keys.
    pub merge_parts: Vec<i32>,
    /// Number of partial rows: items use rows `0..partial_rows`.
    pub partial_rows: u32,
}

impl MixedList {
    /// Items of both parts.
    pub fn items(&self) -> impl Iterator<Item = &MixedItem> {
        self.decode.iter().chain(&self.prefill)
    }

    /// Whether an item has rows of several requests.
    #[must_use]
    pub fn shares(&self) -> bool {
        self.items().any(|item| item.requests > 1)
    }
}
