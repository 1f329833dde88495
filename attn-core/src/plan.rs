//! The planner: a batch becomes a fixed list of work items, which every kernel and the CPU backend run.
//!
//! [`WorkList::build_for`] cuts the queries of each request into tiles and, where that alone would not fill the machine,
//! the keys of a tile into spans; [`PlanBlob`] packs the list and the batch's arrays into one buffer for upload.

mod blob;
mod build;
mod check;
mod error;
mod index;
mod list;
mod rows;
mod search;
mod visible;

pub use blob::{PartialBytes, PlanBlob, PlanOffsets};
pub use error::PlanError;
pub(crate) use index::{logit_index, row_index};
pub(crate) use list::{Lists, lists_of};

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

/// How a batch is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanRule {
    /// Packed query rows of a tile; at least 1.
    pub tile_rows: u32,
    /// Spans begin and end at multiples of this many keys (a span may end at the last key); at least 1.
    pub kv_align: u32,
    /// Items per KV head to aim for: as long as there are fewer, keys are split. 0: never split.
    pub target_items: u32,
    /// A split leaves no span shorter than this many keys, except at the end of a request.
    pub min_span: u32,
    /// Whether items with longer spans come first; otherwise requests come in order.
    pub longest_first: bool,
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
    /// What to run, in any order. Items of a union come arm by arm.
    pub items: Vec<WorkItem>,
    /// `[workers + 1]`: worker `w` runs items `workers[w] .. workers[w + 1]`, one after the other. Workers of a union come arm by arm.
    pub workers: Vec<i32>,
    /// How many items each arm of a union has; empty without a union. See [`WorkList::arms`].
    pub arm_items: Vec<u32>,
    /// What to merge afterwards, in any order.
    pub merges: Vec<MergeItem>,
    /// Partial states: slots that `items` name are `0..slots`.
    pub slots: u32,
}

#[cfg(test)]
mod tests;
