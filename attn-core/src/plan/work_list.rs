//! Work lists: what each worker of a batch runs, and which partial states are merged afterwards.

use std::ops::Range;

use bytemuck::{Pod, Zeroable};

/// One unit of work for one KV head: a Q tile of a request against a KV range.
///
/// Rows of a tile are *packed* (PackGQA): row `r` of a request is query `r / group` under query head `kv_head * group +
/// r % group`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct WorkItem {
    /// Request within the batch.
    pub request: i32,
    /// First PackGQA row of the tile within the request.
    pub first_row: i32,
    /// PackGQA rows of the tile, 1 to the list's `tile_rows`.
    pub rows: i32,
    /// First key of the KV range; a virtual key if [`WorkList::lists`].
    pub kv_begin: i32,
    /// One past the last key of the KV range.
    pub kv_end: i32,
    /// Slot of the partial state, or -1: the item is the only one of its tile and writes the output.
    pub partial: i32,
    /// Index into [`WorkList::merges`] of the merge that reads the partial state, or -1.
    pub merge: i32,
    /// First packed query token of the request. This and the following fields repeat the batch, so that a kernel needs
    /// no second lookup.
    pub qo_token: i32,
    /// Queries of the request.
    pub qo_len: i32,
    /// First packed key token of the request.
    pub kv_token: i32,
    /// Keys of the request.
    pub kv_len: i32,
    /// Index of the request's first entry in the page table; 0 for ragged keys.
    pub page: i32,
}

/// One Q tile whose partial states are merged: slots `first .. first + count`, in this order.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct MergeItem {
    /// Request within the batch.
    pub request: i32,
    /// First PackGQA row of the tile within the request.
    pub first_row: i32,
    /// PackGQA rows of the tile.
    pub rows: i32,
    /// First slot.
    pub first: i32,
    /// Number of slots.
    pub count: i32,
    /// First packed query token of the request.
    pub qo_token: i32,
    /// Queries of the request.
    pub qo_len: i32,
    /// Keys of the request.
    pub kv_len: i32,
}

/// The work of one batch for one KV head; every KV head does the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkList {
    /// Greatest number of PackGQA rows of a tile.
    pub tile_rows: u32,
    /// Query heads per KV head.
    pub group: u32,
    /// Whether keys come from lists of blocks (`kv_list_len`). KV ranges then count *virtual* keys: key `v` is key `v %
    /// block_size` of block `kv_list_block(v / block_size)`.
    pub lists: bool,
    /// Work items. Items of a union come branch by branch.
    pub items: Vec<WorkItem>,
    /// `[workers + 1]`: worker `w` runs items `workers[w] .. workers[w + 1]` in order, possibly none. A union has
    /// `[workers of the branch + 1]` entries for each branch, branch by branch; all count from the first item of the
    /// list.
    pub workers: Vec<i32>,
    /// Items and workers of each branch of a union; empty without a union. See [`WorkList::branches`].
    pub branch_counts: Vec<BranchCount>,
    /// Merges of partial states, in any order, after all items.
    pub merges: Vec<MergeItem>,
    /// Number of slots for partial states: items use slots `0..slots`.
    pub slots: u32,
}

/// Counts of one branch of a union.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BranchCount {
    /// Items.
    pub items: u32,
    /// Workers: one less than the branch's entries in [`WorkList::workers`].
    pub workers: u32,
}

/// The part of a list that belongs to one branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BranchWork {
    /// Its items, a range of [`WorkList::items`].
    pub items: Range<usize>,
    /// Its entries in [`WorkList::workers`], one more than it has workers.
    pub workers: Range<usize>,
}

impl WorkList {
    /// The work of each branch of a union; without a union, of the whole list.
    pub fn branches(&self) -> impl ExactSizeIterator<Item = BranchWork> {
        let count = self.branch_counts.len().max(1);
        let (mut items, mut workers) = (0, 0);
        (0..count).map(move |branch| {
            let (more_items, entries) = match self.branch_counts.get(branch) {
                Some(count) => (count.items as usize, count.workers as usize + 1),
                None => (self.items.len(), self.workers.len()),
            };
            let work = BranchWork { items: items..items + more_items, workers: workers..workers + entries };
            (items, workers) = (work.items.end, work.workers.end);
            work
        })
    }
}
