//! The planner: a batch becomes a fixed work list, which every kernel and the CPU backend run.
//!
//! [`WorkList::build_for`] cuts the queries of each request into Q tiles and, where its [`PlanRule`] says so, the keys
//! of a tile into KV splits, and assigns the items to workers. [`PlanBlob`] packs the list and the arrays of the batch
//! into one buffer for upload.
//!
//! # Steps
//!
//! 1. Q tiles (`q_tiles`): the PackGQA rows of each request, in order. For each tile the blocks of `kv_align` keys that
//!    it may attend to (`visible`, or `kv_list` where keys come from lists of blocks).
//! 2. KV splits: a schedule decides where the keys of a tile are cut, [`Schedule::StreamK`] in `stream_k`, the others
//!    in `kv_splits`.
//! 3. Slots (`slots`): a tile of one item writes its output. Every other tile has a merge and consecutive slots for
//!    partial states, one for each of its items, in the order of its keys (of a union, branch by branch). Slot numbers
//!    are prefix sums of item counts, computed in integers without search or atomics.
//! 4. Items (`split_tiles`, `item_writer`): tile by tile, branch by branch, then assigned to workers.
//!
//! Every step is a pass over tiles, a prefix sum, or a function of these, so that a kernel can plan the same on a
//! device.

mod blob;
mod build;
mod capacity;
mod check;
mod count;
mod error;
mod interval;
mod item_writer;
mod kv_list;
mod kv_splits;
mod layers;
mod mixed;
mod q_tiles;
mod rule;
mod scratch;
mod search;
mod slots;
mod split_tiles;
mod stream_k;
mod tile_classifier;
mod visible;
mod work_list;

pub use blob::{PartialBytes, PlanBlob, PlanOffsets, WorkerStart};
pub use capacity::PlanCapacity;
pub use error::PlanError;
pub(crate) use kv_list::{KvLists, kv_lists_of};
pub use layers::{LayerError, Visibility, VisibilityInterner};
pub use mixed::{
    CascadeCosts, CascadePolicy, MERGE_ROWS, MixedBlob, MixedCapacity, MixedItem, MixedList, MixedMerge, MixedOffsets,
    MixedRule, MixedScratch, MixedSegment, MixedStart,
};
pub use rule::{Cost, PlanRule, Schedule, WorkCapacity};
pub use scratch::PlanScratch;
pub use work_list::{BranchCount, BranchWork, MergeItem, WorkItem, WorkList};

#[cfg(test)]
mod tests;
