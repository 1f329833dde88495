//! Buffers of the planner.

use super::{q_tiles::QTile, slots::TileSlots, stream_k::Cut, visible::VisibleBlocks};

/// Buffers of the planner. Kept from plan to plan ([`WorkList::rebuild_for`](super::WorkList::rebuild_for)), they make
/// planning free of allocations once they have grown to the largest batch.
#[derive(Clone, Debug, Default)]
pub struct PlanScratch {
    pub(super) tiles: Vec<QTile>,
    /// `[tiles][branches]`.
    pub(super) visible: Vec<VisibleBlocks>,
    /// `[tiles]`: prefix sums of tile costs, for one branch ([`Schedule::StreamK`](super::Schedule::StreamK)).
    pub(super) ends: Vec<u64>,
    /// Where workers begin, branch by branch: one entry for each of [`WorkList::workers`](super::WorkList::workers).
    pub(super) cuts: Vec<Cut>,
    /// `[tiles]`.
    pub(super) tile_slots: Vec<TileSlots>,
}
