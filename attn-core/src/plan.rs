//! The planner: a batch becomes a fixed list of work items, which every kernel and the CPU backend run.

use bytemuck::{Pod, Zeroable};

/// One unit of work for one KV head: a query tile of a request against a span of its keys.
///
/// Rows of a tile are *packed*: row `r` of a request is query `r / group`, query head `kv_head * group + r % group`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct WorkItem {
    /// Request within the batch.
    pub request: i32,
    /// Query tile within the request: packed rows `qo_tile * tile_rows ..`.
    pub qo_tile: i32,
    /// First key of the span.
    pub kv_begin: i32,
    /// One past the last key of the span.
    pub kv_end: i32,
    /// Slot for the partial state, or -1: the item is alone and writes the final output.
    pub partial: i32,
    #[doc(hidden)]
    pub _pad: [i32; 3],
}

/// One query tile whose partial states are to be merged, slots `first .. first + count` in this order.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct MergeItem {
    /// Request within the batch.
    pub request: i32,
    /// Query tile within the request.
    pub qo_tile: i32,
    /// First slot.
    pub first: i32,
    /// Number of slots.
    pub count: i32,
}
