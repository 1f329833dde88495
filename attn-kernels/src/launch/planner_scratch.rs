//! The scratch memory of the planner kernel: in shared memory, or in the workspace where it is too large for that.

use attn_core::plan::{PartCapacity, PlanCapacity, PlanRule, Schedule, WorkItem};

/// The most shared memory that the planner kernel may take, in bytes: every supported GPU has this much.
pub const PLAN_SHARED_BYTES: usize = 96 << 10;

/// Bytes of scratch memory of the planner kernel: of `PlannerScratch` in cuda/planner/memory.cuh under stream-K, else
/// of `SplitScratch` in cuda/planner/split_tiles.cuh.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlannerScratch {
    /// The order of items.
    pub order: usize,
    /// All else.
    pub rest: usize,
}

impl PlannerScratch {
    /// The memory for a list of one part within a capacity.
    pub fn of(lists: &PlanCapacity, rule: &PlanRule) -> Self {
        let PartCapacity { items, workers } = lists.parts.first().copied().unwrap_or_default();
        let starts = match rule.schedule {
            // per tile: a work item and its end; per worker: a KV split, a cut, its first item, a merge's first split
            Schedule::StreamK => {
                let rest = items * (size_of::<WorkItem>() + 8) + (workers + 1) * (16 + 8 + 4 + 4) + 16;
                return PlannerScratch { order: 0, rest };
            }
            // as many tiles as workers are not cut
            Schedule::LongestFirst => items.min(rule.workers as usize),
            Schedule::FixedSplit { .. } => items,
        };
        // per request: its lengths, first key token and first tile; per tile: its visible blocks and request; where
        // tiles are cut: items and merges before
        let rest = lists.requests * 24 + items * 12 + starts * 8;
        PlannerScratch { order: items.next_power_of_two() * 8, rest: rest.next_multiple_of(8) }
    }

    /// Bytes in shared memory of the CTA that plans, and in the workspace behind the status. What does not fit shared
    /// memory as a whole has its order of items there, if that fits.
    pub fn shared_and_workspace(self) -> (usize, usize) {
        let PlannerScratch { order, rest } = self;
        match (order + rest <= PLAN_SHARED_BYTES, order <= PLAN_SHARED_BYTES) {
            (true, _) => (order + rest, 0),
            (false, true) => (order, rest),
            (false, false) => (0, rest + order),
        }
    }

    /// `PlanParams::scratch` and `PlanParams::order`, where memory of the workspace begins at an address.
    pub fn addresses(self, workspace: u64) -> [u64; 2] {
        match self.shared_and_workspace() {
            (_, 0) => [0; 2],
            (0, _) if self.order > 0 => [workspace, workspace + self.rest as u64],
            _ => [workspace, 0],
        }
    }
}
