//! Mixed lists: requests of few rows and of many in one launch, and keys that requests share.
//!
//! A mixed list has two *parts*. Requests of no more rows than a decode tile has are cut as on a [`Schedule::Line`](super::Schedule::Line), all
//! others as under [`Schedule::LongestFirst`](super::Schedule::LongestFirst); one launch runs both, and each gets its share of the workers.
//!
//! In a cascade ([`Level`](crate::batch::Level)) an item is a tile of rows against keys of one segment. Where it pays ([`SharedRule`]) it has the rows
//! of all requests that share the segment, so that keys are read once for all of them. The states of a row over its segments meet in a merge.
//!
//! # How it goes
//!
//! 1. Tiles (`tiles`): rows of requests, segment by segment; of each, the blocks of keys that its rows may attend to (`seen`).
//! 2. Cuts: the tiles of each part by its schedule (`line` and `spans`, as in flat lists), blocks being counted from the first key of the segment.
//! 3. States (`states`): rows are merged in *units* of up to 16, which no item cuts. A unit with one item writes through, unless another
//!    unit of that item has more. Every other has a merge, with a part for each of its items, in the order of keys. Merges are a launch of their own: an
//!    item of many requests would otherwise have to run those of all of its rows, one after the other.
//! 4. Items (`build`).

mod blob;
mod build;
mod check;
mod pays;
mod room;
mod seen;
mod states;
mod tiles;

pub use blob::{MixedBlob, MixedOffsets, MixedSegment, MixedStart};
pub use build::MixedScratch;
pub use room::MixedRoom;

use bytemuck::{Pod, Zeroable};

use super::{PlanError, PlanRule};

/// The most rows of a merge.
pub const MERGE_ROWS: u32 = 16;

/// One unit of work for one KV head: rows of one request, or of several neighbours, against keys that all of them have.
///
/// Row `r` of an item is packed row `first_row + r`, counted from the first row of `request` on and over the requests after it: query token
/// `qo_token + (first_row + r) / group`, query head `kv_head * group + (first_row + r) % group`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct MixedItem {
    /// The first request of the rows.
    pub request: i32,
    /// Requests from the first to the last that has rows here; 1 unless keys are shared.
    pub requests: i32,
    /// First packed row, counted from the first row of `request`.
    pub first_row: i32,
    /// Packed rows; 0 in room that is not used.
    pub rows: i32,
    /// Logical position of the first key of the span.
    pub kv_begin: i32,
    /// One past that of the last.
    pub kv_end: i32,
    /// Logical position of the segment's first key; 0 without levels.
    pub kv_first: i32,
    /// Where that key is in memory: a token of ragged keys, or an entry of the page table.
    pub memory: i32,
    /// Its place among rewritten keys.
    pub pass: i32,
    /// 1: it is proven that every logit of the item counts, for all of its requests. Never asked of an item of one request without levels.
    pub full: i32,
    /// The first *row* of partial states, row `r` of the item having `partial + r`; -1: the item writes the output.
    pub partial: i32,
    /// First packed query token of `request`. From here on what the batch says of it, so that a kernel needs no second look-up.
    pub qo_token: i32,
    /// Queries of `request`.
    pub qo_len: i32,
    /// First packed key token of `request`, as index words count: the sum of the keys of all requests before.
    pub kv_token: i32,
    /// Keys of `request`, over all of its segments.
    pub kv_len: i32,
    #[doc(hidden)]
    pub _pad: i32,
}

/// Up to [`MERGE_ROWS`] rows of one request whose partial states are to be merged.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct MixedMerge {
    /// Request within the batch.
    pub request: i32,
    /// First packed row within the request.
    pub first_row: i32,
    /// Packed rows.
    pub rows: i32,
    /// The first of its parts, an index into [`MixedList::merge_parts`].
    pub first: i32,
    /// Parts; 0 in room that is not used.
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
    /// The most packed rows of an item of the decode part, and of the prefill part.
    pub tile_rows: [u32; 2],
    /// Tiles of few rows.
    pub decode: Vec<MixedItem>,
    /// `[workers + 1]`: worker `w` runs items `workers[w] .. workers[w + 1]` of the decode part, one after the other, and may have none.
    pub workers: Vec<i32>,
    /// Tiles of many rows, longest first: one a worker.
    pub prefill: Vec<MixedItem>,
    /// What to merge, in the order of requests and of their rows.
    pub merges: Vec<MixedMerge>,
    /// For each part of each merge, the partial row of the merge's first row, in the order of keys.
    pub merge_parts: Vec<i32>,
    /// Rows of partial states: items name `0..partial_rows`.
    pub partial_rows: u32,
}

/// How a mixed batch is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MixedRule {
    /// The decode part. Its workers are those of the whole device, of which the part gets its share.
    pub decode: PlanRule,
    /// The prefill part; its workers as those of the other. Both count costs in the same unit.
    pub prefill: PlanRule,
    /// Workers of the decode part beside items that fill the device: one on each of its multiprocessors; no more than all.
    pub beside: u32,
    /// When keys are shared.
    pub shared: SharedRule,
}

/// When requests of a group are run together against the keys that they share, in the units of [`Cost`](super::Cost).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedRule {
    /// Who decides.
    pub sharing: Sharing,
    /// One more state of up to [`MERGE_ROWS`] rows: writing it, and merging it.
    pub state: u32,
    /// One block of a decode tile whose keys another tile has read just before, so that they are near: at most `decode.cost.block`.
    pub again: u32,
    /// The launch that merges states, as every worker of the device waits for it.
    pub launch: u32,
    /// What the decode part's keys cost more than in a launch of decode, in parts of 1024; 0 where no other launch would run the batch.
    pub slower: u32,
}

/// Whether keys are shared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// Where it costs less than reading them for each request.
    #[default]
    Paying,
    /// Wherever several requests have them.
    Always,
    /// Nowhere: every request reads its own.
    Never,
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

impl MixedRule {
    /// Refuses a 0 where 1 is the least.
    fn check(&self, group: u32) -> Result<(), PlanError> {
        self.decode.check(group)?;
        self.prefill.check(group)
    }
}
