//! The planner: a batch becomes a fixed list of work items, which every kernel and the CPU backend run.
//!
//! [`WorkList::build_for`] cuts the queries of each request into tiles, and the keys of a tile into spans where its [`PlanRule`] says so, and
//! deals the items to workers; [`PlanBlob`] packs the list and the batch's arrays into one buffer for upload.
//!
//! # How it goes
//!
//! 1. Tiles: the packed rows of each request in order (`rows`), and of each the blocks of `kv_align` keys that it may attend to (`visible`, `list`).
//! 2. Cuts: a schedule says where the keys of a tile are cut: [`Schedule::Line`] in `line`, the others in `spans`.
//! 3. Places (`place`): a tile of one item writes its output. Every other has a merge, and as many consecutive slots as it has pieces, in the
//!    order of its keys (of a union, arm by arm). Where they are is a matter of counting: no search, no atomics, and nothing but integers.
//! 4. Items (`fill`, `emit`): tile by tile, arm by arm; then dealt to workers.
//!
//! Every step is a pass over tiles, prefix sums, or a function of these alone, so that a kernel can do the same on a device.

mod blob;
mod build;
mod check;
mod emit;
mod error;
mod fill;
mod index;
mod interval;
mod layers;
mod line;
mod list;
mod mask;
mod mixed;
mod place;
mod room;
mod rows;
mod rule;
mod scratch;
mod search;
mod spans;
mod visible;

pub use blob::{PartialBytes, PlanBlob, PlanOffsets, WorkerStart};
pub use error::PlanError;
pub(crate) use index::{logit_index, row_index};
pub use layers::{LayerError, Sight, Sights};
pub(crate) use list::{Lists, lists_of};
pub use mixed::{
    MERGE_ROWS, MixedBlob, MixedItem, MixedList, MixedMerge, MixedOffsets, MixedRoom, MixedRule, MixedScratch,
    MixedSegment, MixedStart, SharedRule, Sharing,
};
pub use room::PlanRoom;
pub use rule::{Capacity, Cost, PlanRule, Schedule};
pub use scratch::Scratch;

use std::ops::Range;

use bytemuck::{Pod, Zeroable};

/// One unit of work for one KV head: a query tile of a request against a span of its keys.
///
/// Rows of a tile are *packed*: row `r` of a request is query `r / group`, query head `kv_head * group + r % group`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct WorkItem {
    /// Request within the batch.
    pub request: i32,
    /// First packed row of the tile within the request.
    pub first_row: i32,
    /// Packed rows of the tile: 1 to the list's `tile_rows`.
    pub rows: i32,
    /// First key of the span; a virtual one in a list with [`WorkList::lists`].
    pub kv_begin: i32,
    /// One past the last key of the span.
    pub kv_end: i32,
    /// Slot for the partial state, or -1: the item is alone and writes the final output.
    pub partial: i32,
    /// The merge that takes the partial state, an index into [`WorkList::merges`]; -1 where there is none.
    pub merge: i32,
    /// First packed query token of the request. From here on what the batch says of the request, so that a kernel needs no second look-up.
    pub qo_token: i32,
    /// Queries of the request.
    pub qo_len: i32,
    /// First packed key token of the request.
    pub kv_token: i32,
    /// Keys of the request.
    pub kv_len: i32,
    /// The request's first page, an index into the page table; 0 for ragged keys.
    pub page: i32,
}

/// One query tile whose partial states are to be merged, slots `first .. first + count` in this order.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct MergeItem {
    /// Request within the batch.
    pub request: i32,
    /// First packed row of the tile within the request.
    pub first_row: i32,
    /// Packed rows of the tile.
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
    /// The most packed query rows of a tile.
    pub tile_rows: u32,
    /// Query heads per KV head.
    pub group: u32,
    /// Whether keys come from lists of blocks (`kv_list_len`): spans then count *virtual* keys, key `v` being the
    /// `v % block_size`-th of block `kv_list_block(v / block_size)`.
    pub lists: bool,
    /// What to run. Items of a union come arm by arm.
    pub items: Vec<WorkItem>,
    /// `[workers + 1]`: worker `w` runs items `workers[w] .. workers[w + 1]`, one after the other, and may have none. A union has entries
    /// for the workers of each arm, one arm after the other: `[workers of the arm + 1]` for each, all counted from the first item of the list.
    pub workers: Vec<i32>,
    /// How many items and workers each arm of a union has; empty without a union. See [`WorkList::arms`].
    pub arm_counts: Vec<ArmCount>,
    /// What to merge afterwards, in any order.
    pub merges: Vec<MergeItem>,
    /// Partial states: slots that `items` name are `0..slots`.
    pub slots: u32,
}

/// How much of a list an arm of a union has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArmCount {
    /// Items.
    pub items: u32,
    /// Workers: one less than its entries in [`WorkList::workers`].
    pub workers: u32,
}

/// Where the work of an arm is in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArmWork {
    /// Its items, a range of [`WorkList::items`].
    pub items: Range<usize>,
    /// Its entries of [`WorkList::workers`], one more than it has workers.
    pub workers: Range<usize>,
}

impl WorkList {
    /// The work of each arm of a union; all of it without a union.
    pub fn arms(&self) -> impl ExactSizeIterator<Item = ArmWork> {
        let count = self.arm_counts.len().max(1);
        let (mut items, mut workers) = (0, 0);
        (0..count).map(move |arm| {
            let (more_items, entries) = match self.arm_counts.get(arm) {
                Some(count) => (count.items as usize, count.workers as usize + 1),
                None => (self.items.len(), self.workers.len()),
            };
            let work = ArmWork { items: items..items + more_items, workers: workers..workers + entries };
            (items, workers) = (work.items.end, work.workers.end);
            work
        })
    }
}

#[cfg(test)]
mod tests;
