//! How a mixed batch is cut into work, and when a cascade reads shared keys once.

use crate::plan::{PlanError, PlanRule};

/// How a mixed batch is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MixedRule {
    /// Rule of the decode part. Its workers are those of the whole device, of which the part gets its share.
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
    /// One more partial state of up to [`MERGE_ROWS`](super::MERGE_ROWS) rows: writing and merging it.
    pub state: u32,
    /// One block of a decode tile whose keys are in the L2 cache, since another tile has just read them; at most
    /// `decode.cost.block`.
    pub cached_block: u32,
    /// The launch of the merge kernel, for which every worker of the device waits.
    pub merge_launch: u32,
    /// How much more the keys of the decode part cost than in a decode launch, in units of 1/1024; 0 if the batch needs
    /// a mixed launch anyway.
    pub decode_penalty: u32,
}

/// Whether requests that share keys run in shared tiles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CascadePolicy {
    /// Where that costs less than reading the keys for each request.
    #[default]
    Auto,
    /// Wherever several requests share keys.
    Always,
    /// Nowhere: every request reads its keys itself.
    Never,
}

impl MixedRule {
    /// Refuses a 0 where 1 is the least.
    pub(super) fn check(&self, group: u32) -> Result<(), PlanError> {
        self.decode.check(group)?;
        self.prefill.check(group)
    }
}
