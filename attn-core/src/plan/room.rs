//! Room for the lists of every batch up to some size.

use super::{ArmWork, Capacity, PlanError, PlanRule, WorkList, list::lists_of, rows::count_i32};
use crate::{
    batch::{BatchCapacity, Layout},
    expr::Variant,
    spec::Heads,
};

/// The most that a batch and its list may have. Memory that is laid out for it keeps its addresses, whatever the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanRoom {
    /// Requests.
    pub requests: usize,
    /// Entries of the page table; `None` for ragged keys.
    pub pages: Option<usize>,
    /// Arms of the variant: 1 without a union.
    pub arms: usize,
    /// Work items of each arm.
    pub items: usize,
    /// Workers of each arm.
    pub workers: usize,
    /// Merges.
    pub merges: usize,
    /// Slots of partial states.
    pub slots: usize,
}

impl PlanRoom {
    /// Room for every batch within a capacity, under a rule.
    ///
    /// Under [`Schedule::Fixed`](super::Schedule::Fixed) a tile's list of keys (`kv_list_len`) is taken to be no longer than its request: only
    /// [`PlanRoom::check`] says whether one that names keys several times still fits.
    ///
    /// # Errors
    ///
    /// More of something than `i32` counts.
    pub fn of(capacity: &BatchCapacity, variant: &Variant, heads: Heads, rule: &PlanRule) -> Result<Self, PlanError> {
        let run = lists_of(variant).map(|lists| lists.queries);
        let tiles = capacity.tiles(heads.group(), rule.tile_rows, run);
        let blocks = capacity.blocks(heads.group(), rule.tile_rows, run, rule.kv_align);
        let arms = if variant.has_union() { variant.arms().len() } else { 1 };
        let Capacity { items, workers, merges, slots } = rule.capacity(tiles, blocks);
        // the tiles of a union are all merged
        let (merges, slots) = if arms > 1 { (tiles, items.saturating_mul(arms as u64)) } else { (merges, slots) };
        let count = |what, value: u64| Ok::<_, PlanError>(count_i32(what, value)? as usize);
        count("work items", items.saturating_mul(arms as u64))?;
        Ok(PlanRoom {
            requests: capacity.requests as usize,
            pages: capacity.pages.map(|_| count("pages", capacity.page_entries())).transpose()?,
            arms,
            items: count("work items", items)?,
            workers: count("workers", workers)?,
            merges: count("merges", merges)?,
            slots: count("partial states", slots)?,
        })
    }

    /// Checks that a batch and its list have room.
    ///
    /// # Errors
    ///
    /// [`PlanError::Room`] says what there is too much of.
    pub fn check(&self, layout: &Layout, work: &WorkList) -> Result<(), PlanError> {
        let fits = |what, count: usize, room: usize| {
            if count <= room { Ok(()) } else { Err(PlanError::Room { what, count, room }) }
        };
        fits("requests", layout.batch(), self.requests)?;
        fits("pages", layout.pages().map_or(0, |pages| pages.indices().len()), self.pages.unwrap_or(0))?;
        fits("arms", work.arms().len(), self.arms)?;
        for ArmWork { items, workers } in work.arms() {
            fits("work items", items.len(), self.items)?;
            fits("workers", workers.len().saturating_sub(1), self.workers)?;
        }
        fits("merges", work.merges.len(), self.merges)?;
        fits("partial states", work.slots as usize, self.slots)
    }
}
