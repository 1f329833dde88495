//! Mixed lists: decode and prefill requests in one launch, and cascades, whose requests share keys.
//!
//! A mixed list has two *parts*. Requests with at most as many rows as a decode tile are cut as under
//! [`Schedule::StreamK`](super::Schedule::StreamK), all others as under
//! [`Schedule::LongestFirst`](super::Schedule::LongestFirst). One launch runs both parts, and each gets its share of
//! the workers.
//!
//! In a cascade ([`CascadeLevel`](crate::batch::CascadeLevel)) an item is a tile of rows against keys of one segment.
//! If the cost model ([`CascadeCosts`]) predicts a gain, the tile has the rows of all requests that share the segment.
//! Its keys are then read once for all of them. The partial states of a row over its segments meet in a merge.
//!
//! # Steps
//!
//! 1. Tiles (`cut_tiles`): rows of requests, segment by segment, and for each tile the blocks of keys that its rows may
//!    attend to (`visible`).
//! 2. KV splits: the tiles of each part by its schedule, as in flat lists. Blocks are counted from the first key of the
//!    segment.
//! 3. Partial states (`partial_rows`): rows are merged in *units* of up to [`MERGE_ROWS`] rows, which no item cuts. If
//!    all units of an item have only this item, the item writes the output. Otherwise each unit of the item has a
//!    merge, with one part for each item of the unit, in the order of keys. Merges run in a launch of their own. If the
//!    last item of a shared tile merged instead, one CTA would merge the rows of many requests one after the other.
//! 4. Items (`build`).

mod blob;
mod build;
mod capacity;
mod cascade_policy;
mod check;
mod cut_tiles;
mod list;
mod partial_rows;
mod rule;
mod tile;
mod visible;

pub use blob::{MixedBlob, MixedOffsets, MixedSegment, MixedStart};
pub use build::MixedScratch;
pub use capacity::MixedCapacity;
pub use list::{MERGE_ROWS, MixedItem, MixedList, MixedMerge};
pub use rule::{CascadeCosts, CascadePolicy, MixedRule};
