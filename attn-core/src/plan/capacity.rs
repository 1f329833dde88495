//! The capacity of a plan: sizes of memory that holds the list of every batch up to a limit.

use super::{BranchWork, PlanError, PlanRule, WorkCapacity, WorkList, count::count_i32, kv_list::kv_lists_of};
use crate::{
    batch::{BatchCapacity, Layout},
    expr::Variant,
    spec::Heads,
};

/// The most that a batch and its work list may have. Memory of this size keeps its addresses for every such batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanCapacity {
    /// Requests.
    pub requests: usize,
    /// Entries of the page table; `None` for ragged keys.
    pub pages: Option<usize>,
    /// Branches of the variant: 1 without a union.
    pub branches: usize,
    /// Work items of each branch.
    pub items: usize,
    /// Workers of each branch.
    pub workers: usize,
    /// Merges.
    pub merges: usize,
    /// Slots of partial states.
    pub slots: usize,
}

impl PlanCapacity {
    /// The capacity for every batch within `capacity`, under a rule.
    ///
    /// Under [`Schedule::FixedSplit`](super::Schedule::FixedSplit) a tile's list of keys (`kv_list_len`) is assumed to
    /// be no longer than its request. A list that names keys more than once may be longer: [`PlanCapacity::check`]
    /// tells whether it fits.
    ///
    /// # Errors
    ///
    /// A count that exceeds `i32`.
    pub fn of(capacity: &BatchCapacity, variant: &Variant, heads: Heads, rule: &PlanRule) -> Result<Self, PlanError> {
        let run = kv_lists_of(variant).map(|lists| lists.queries);
        let tiles = capacity.tiles(heads.group(), rule.tile_rows, run);
        let blocks = capacity.blocks(heads.group(), rule.tile_rows, run, rule.kv_align);
        let branches = if variant.has_union() { variant.branches().len() } else { 1 };
        let WorkCapacity { items, workers, merges, slots } = rule.capacity(tiles, blocks);
        // every tile of a union is merged
        let (merges, slots) =
            if branches > 1 { (tiles, items.saturating_mul(branches as u64)) } else { (merges, slots) };
        let count = |what, value: u64| Ok::<_, PlanError>(count_i32(what, value)? as usize);
        count("work items", items.saturating_mul(branches as u64))?;
        Ok(PlanCapacity {
            requests: capacity.requests as usize,
            pages: capacity.pages.map(|_| count("pages", capacity.page_entries())).transpose()?,
            branches,
            items: count("work items", items)?,
            workers: count("workers", workers)?,
            merges: count("merges", merges)?,
            slots: count("partial states", slots)?,
        })
    }

    /// Checks that a batch and its list fit.
    ///
    /// # Errors
    ///
    /// [`PlanError::Capacity`] names the count that exceeds the capacity.
    pub fn check(&self, layout: &Layout, work: &WorkList) -> Result<(), PlanError> {
        let fits = |what, count: usize, capacity: usize| {
            if count <= capacity { Ok(()) } else { Err(PlanError::Capacity { what, count, capacity }) }
        };
        fits("requests", layout.batch(), self.requests)?;
        fits("pages", layout.pages().map_or(0, |pages| pages.indices().len()), self.pages.unwrap_or(0))?;
        fits("branches", work.branches().len(), self.branches)?;
        for BranchWork { items, workers } in work.branches() {
            fits("work items", items.len(), self.items)?;
            fits("workers", workers.len().saturating_sub(1), self.workers)?;
        }
        fits("merges", work.merges.len(), self.merges)?;
        fits("partial states", work.slots as usize, self.slots)
    }
}
