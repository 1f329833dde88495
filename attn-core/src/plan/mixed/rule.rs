//! How a mixed batch is cut into work, and when a cascade reads shared keys once.

use crate::plan::{PlanError, PlanRule};

/// How a mixed batch is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MixedRule {
    /// Rule of the decode part. Its `workers` are those of the whole device; the decode part gets a share of them.
    pub decode: PlanRule,
    /// Rule of the prefill part, with the same meaning of workers. Both rules count costs in the same unit.
    pub prefill: PlanRule,
    /// Workers of the decode part while prefill items fill the device: one on each of its multiprocessors; no more than
    /// all workers.
    pub co_run_workers: u32,
    /// Policy and costs of cascades.
    pub cascade: CascadeCosts,
}

/// When requests that share keys run in shared tiles. Costs are in the units of [`Cost`](crate::plan::Cost).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CascadeCosts {
    /// Whether the costs decide.
    pub policy: CascadePolicy,
    /// Cost of writing and merging one more partial state of up to [`MERGE_ROWS`](super::MERGE_ROWS) rows.
    pub state: u32,
    /// Cost of one block of a decode tile if another tile has just brought its keys into the L2 cache; at most
    /// `decode.cost.block`.
    pub cached_block: u32,
    /// Cost of launching the merge kernel; all workers of the device are idle meanwhile.
    pub merge_launch: u32,
    /// Slowdown of the decode part in a mixed launch relative to a decode launch, in units of 1/1024 of the cost of its
    /// keys; 0 if the batch needs a mixed launch anyway.
    pub decode_penalty: u32,
}

/// Whether requests that share keys run in shared tiles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CascadePolicy {
    /// They do where that costs less than reading the keys once per request.
    #[default]
    Auto,
    /// They do wherever several requests share keys.
    Always,
    /// They never do: every request reads its keys itself.
    Never,
}

impl MixedRule {
    /// Checks that every count is at least 1.
    pub(super) fn check(&self, group: u32) -> Result<(), PlanError> {
        self.decode.check(group)?;
        self.prefill.check(group)
    }
}
