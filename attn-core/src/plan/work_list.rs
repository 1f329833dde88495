//! Work lists: what each worker of a batch runs, and which partial states are merged afterwards.

use std::ops::Range;

use attn_macros::CudaStruct;
use bytemuck::{Pod, Zeroable};

/// Rows of partial states that the merge kernel of a mixed launch merges at a time.
pub const MERGE_ROWS: u32 = 16;

/// One unit of work for one KV head: rows of a request, or of several neighbouring requests, against a KV range that
/// all of them have.
///
/// Rows are *packed* (PackGQA). Row `r` of an item is row `first_row + r`, counted from the first row of `request` over
/// the requests after it: query token `qo_token + (first_row + r) / group` under query head `kv_head * group +
/// (first_row + r) % group`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable, CudaStruct)]
pub struct WorkItem {
    /// First request of the rows.
    pub request: i32,
    /// Number of requests from the first to the last that has rows here; 1 unless requests share keys.
    pub requests: i32,
    /// First PackGQA row, counted from the first row of `request`.
    pub first_row: i32,
    /// PackGQA rows, 1 to the `tile_rows` of its part; 0 in an unused entry.
    pub rows: i32,
    /// First key of the KV range, as a position in the request; a virtual key if [`WorkList::lists`].
    pub kv_begin: i32,
    /// One past the last key of the KV range.
    pub kv_end: i32,
    /// Position of the segment's first key; 0 without levels.
    pub kv_first: i32,
    /// Memory index of the segment's first key: a token of ragged keys, or an entry of the page table.
    pub memory: i32,
    /// Index of the segment's first key among preprocessed keys.
    pub pass: i32,
    /// 1 if no logit of the item is masked for any of its requests (the tile is full). 0 without levels, where kernels
    /// classify tiles themselves.
    pub full: i32,
    /// Row of the partial states that takes the state of the first row; the others follow. -1: the item writes the
    /// output.
    pub partial: i32,
    /// Index into [`WorkList::merges`] of the merge that reads the partial states. -1: there is none, or several
    /// merges read them.
    pub merge: i32,
    /// First packed query token of `request`. This and the following fields repeat the batch, so that a kernel needs no
    /// second lookup.
    pub qo_token: i32,
    /// Queries of `request`.
    pub qo_len: i32,
    /// First packed key token of `request`, as in the coordinates of a key: the sum of the keys of all requests before.
    pub kv_token: i32,
    /// Keys of `request`, over all of its segments.
    pub kv_len: i32,
}

/// Rows of one request whose partial states are merged: a Q tile, or up to [`MERGE_ROWS`] rows of a mixed list.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable, CudaStruct)]
pub struct MergeItem {
    /// Request within the batch.
    pub request: i32,
    /// First PackGQA row within the request.
    pub first_row: i32,
    /// PackGQA rows.
    pub rows: i32,
    /// The partial row of the first row in the first state. If the list has [`WorkList::merge_parts`], an index into
    /// them.
    pub first: i32,
    /// Number of states of each row; 0 in an unused entry.
    pub count: i32,
    /// First packed query token of the request.
    pub qo_token: i32,
    /// Queries of the request.
    pub qo_len: i32,
    /// Keys of the request.
    pub kv_len: i32,
}

/// Items that one rule cuts: a branch of a union, or the decode or prefill part of a mixed list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkPart {
    /// The branch of the variant that runs the items; 0 without a union.
    pub branch: u32,
    /// Greatest number of PackGQA rows of an item.
    pub tile_rows: u32,
    /// Its items, a range of [`WorkList::items`].
    pub items: Range<usize>,
    /// Its entries in [`WorkList::workers`], one more than it has workers. Empty if each item has a worker of its own.
    pub workers: Range<usize>,
}

/// The work of one batch for one KV head; every KV head does the same.
///
/// A flat list has one part, or one for each branch of a union. A mixed list has two: the decode part with requests of
/// few rows, and the prefill part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkList {
    /// Query heads per KV head.
    pub group: u32,
    /// Whether keys come from lists of blocks (`kv_list_len`). KV ranges then count *virtual* keys: key `v` is key `v %
    /// block_size` of block `kv_list_block(v / block_size)`.
    pub lists: bool,
    /// Whether keys are split at fixed multiples ([`Schedule::FixedSplit`](super::Schedule::FixedSplit)). The bits of a
    /// row then depend on the row alone, so a kernel computes it in one way, however many rows it has at a time.
    pub fixed_splits: bool,
    /// The parts, in the order of their items.
    pub parts: Vec<WorkPart>,
    /// Work items, part by part.
    pub items: Vec<WorkItem>,
    /// For each part that has workers `[workers + 1]` entries: worker `w` runs items `workers[w] .. workers[w + 1]` in
    /// order, possibly none. All entries count from the first item of the list.
    pub workers: Vec<i32>,
    /// Merges of partial states, after all items.
    pub merges: Vec<MergeItem>,
    /// For each state of each merge the partial row of the merge's first row, in the order of keys. Empty for a flat
    /// list: there the states of a merge are `tile_rows` rows apart.
    pub merge_parts: Vec<i32>,
    /// Number of partial rows: items use rows `0..partial_rows`.
    pub partial_rows: u32,
}

impl WorkPart {
    /// Number of workers.
    pub fn workers(&self) -> usize {
        if self.workers.is_empty() { self.items.len() } else { self.workers.len() - 1 }
    }
}

impl WorkList {
    /// Number of branches of the variant: 1 without a union.
    pub fn branches(&self) -> usize {
        self.parts.last().map_or(1, |part| part.branch as usize + 1)
    }

    /// Whether the list has a decode and a prefill part.
    pub fn is_mixed(&self) -> bool {
        self.parts.len() > self.branches()
    }

    /// The partial row of a merge's first row in each of its states, in the order of keys.
    pub fn states_of(&self, merge: &MergeItem) -> impl Iterator<Item = i32> {
        let (first, step) = (merge.first, self.parts.first().map_or(1, |part| part.tile_rows as i32));
        let listed = !self.merge_parts.is_empty();
        (0..merge.count).map(move |n| if listed { self.merge_parts[(first + n) as usize] } else { first + n * step })
    }
}
