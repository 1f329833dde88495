//! Memory of planning.

use super::{line::Cut, place::Place, rows::RowTile, visible::Visible};

/// What planning writes down on the way. Kept from plan to plan ([`WorkList::rebuild_for`](super::WorkList::rebuild_for)), it makes planning
/// free of allocations once it has grown to the largest batch.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    pub(super) tiles: Vec<RowTile>,
    /// `[tiles][arms]`.
    pub(super) seen: Vec<Visible>,
    /// `[tiles]` where each tile ends on the line of one arm.
    pub(super) ends: Vec<u64>,
    /// Where workers begin, one arm after the other: as the entries of the list.
    pub(super) cuts: Vec<Cut>,
    /// `[tiles]`.
    pub(super) places: Vec<Place>,
}
