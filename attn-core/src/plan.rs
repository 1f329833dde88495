//! The planner: a batch becomes a fixed work list, which every kernel and the CPU backend run.
//!
//! [`WorkList::build_for`] cuts the queries of each request into Q tiles and, where its [`ListRule`] says so, the keys
//! of a tile into KV splits, and assigns the items to workers. [`PlanBlob`] packs the list and the arrays of the batch
//! into one buffer for upload.
//!
//! A *flat* list has items of one kernel. A *mixed* list has two parts, which one launch runs: requests with at most as
//! many rows as a decode tile are cut as under [`Schedule::StreamK`], all others as under [`Schedule::LongestFirst`],
//! and each part gets its share of the workers. In a cascade ([`CascadeLevel`](crate::batch::CascadeLevel)) an item is
//! a tile of rows against keys of one segment. If the cost model ([`CascadeCosts`]) predicts a gain, the tile has the
//! rows of all requests that share the segment. Its keys are then read once for all of them.
//!
//! # Steps
//!
//! 1. Q tiles (`cut_tiles`; of a cascade `cascade`): the PackGQA rows of each request, in order. For each tile the
//!    blocks of `kv_align` keys that it may attend to (`visible`, `segment_visible`, or `kv_list` where keys come from
//!    lists of blocks).
//! 2. KV splits (`split_tiles`): a schedule decides where the keys of a tile are cut, [`Schedule::StreamK`] in
//!    `stream_k`, the others in `kv_splits`.
//! 3. Rows of partial states (`partial_rows`): a tile of one item writes its output. Every other tile has rows for the
//!    partial states of its items, in the order of its keys (of a union, branch by branch), and a merge. They are
//!    prefix sums of item counts, computed in integers without search or atomics. A mixed list merges *units* of up to
//!    [`MERGE_ROWS`] rows, which no item cuts, in a launch of their own: if the last item of a shared tile merged
//!    instead, one CTA would merge the rows of many requests one after the other.
//! 4. Items (`split_tiles`): part by part, tile by tile, then assigned to workers.
//!
//! Every step is a pass over tiles, a prefix sum, or a function of these, so that a kernel can plan the same on a
//! device.

mod blob;
mod build;
mod capacity;
mod cascade;
mod cascade_cost;
mod check;
mod cut_tiles;
mod error;
mod interval;
mod kv_splits;
mod merge_groups;
mod merge_units;
mod partial_rows;
mod rule;
mod search;
mod segment_visible;
mod split_tiles;
mod stream_k;
mod tile;
mod visible;
mod work_list;
mod worker_share;

pub use blob::{PartRanges, PartialBytes, PlanBlob, PlanOffsets, WorkerStart};
pub use capacity::{PartCapacity, PlanCapacity};
pub(crate) use cascade_cost::CUDA as CASCADE_COST;
pub use error::PlanError;
pub(crate) use kv_splits::CUDA as KV_SPLITS;
pub(crate) use merge_groups::CUDA as MERGE_GROUPS;
pub use merge_groups::merge_steps;
pub(crate) use merge_units::CUDA as MERGE_UNITS;
pub use rule::{CascadeCosts, CascadePolicy, Cost, ListRule, MixedRule, PlanRule, Schedule};
pub use split_tiles::PlanScratch;
pub(crate) use stream_k::CUDA as STREAM_K_LINE;
pub use stream_k::share_to_merge;
pub use work_list::{MERGE_ROWS, MergeItem, WorkItem, WorkList, WorkPart};
pub(crate) use worker_share::CUDA as WORKER_SHARE;

#[cfg(test)]
mod tests;
