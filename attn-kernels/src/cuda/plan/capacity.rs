//! The capacity of a plan whose batch changes in place, so that captured launches can be replayed with other batches.

use std::sync::Arc;

use attn_core::batch::{BatchCapacity, Layout};
use attn_core::plan::{ListRule, PlanBlob, PlanCapacity, PlanScratch, WorkList};

use crate::cuda::CudaError;
use crate::cuda::attention::planner::Planner;
use crate::launch::{CascadePlanParams, MixedPlanParams};

/// The capacity of a plan whose batch changes in place, and the host memory that planning into it takes.
#[derive(Debug)]
pub(super) struct ReservedCapacity {
    pub(super) capacity: BatchCapacity,
    pub(super) counts: PlanCapacity,
    /// A batch whose tensors are at least as large as those of every batch within the capacity.
    pub(super) largest: Layout,
    /// The same, with the queries that the batch on the device has at most.
    pub(super) on_device_largest: Layout,
    pub(super) rule: ListRule,
    /// The state of planning on the device; `None` before its first use.
    pub(super) on_device: Option<DevicePlanning>,
    /// Whether the device plans the current batch, already or later in the order of a stream. The host does not know
    /// the lengths of such a batch.
    pub(super) batch_is_on_device: bool,
    /// Whether an update on the device was captured. Each replay then plans a batch whose lengths the host does not
    /// know.
    pub(super) is_captured_on_device: bool,
    /// The next batch while it is checked. It then becomes the `layout` of the plan.
    pub(super) next: Layout,
    pub(super) work: WorkList,
    pub(super) scratch: PlanScratch,
    pub(super) blob: PlanBlob,
}

impl ReservedCapacity {
    pub(super) fn new(
        capacity: &BatchCapacity,
        counts: PlanCapacity,
        rule: ListRule,
        work: WorkList,
    ) -> Result<Self, CudaError> {
        Ok(ReservedCapacity {
            capacity: *capacity,
            counts,
            largest: capacity.largest()?,
            on_device_largest: capacity.largest()?,
            rule,
            on_device: None,
            batch_is_on_device: false,
            is_captured_on_device: false,
            next: Layout::default(),
            blob: PlanBlob::default(),
            work,
            scratch: PlanScratch::default(),
        })
    }

    /// A batch that tensors of a run have to fit, where the device plans: a captured update may be replayed before it.
    pub(super) fn largest_on_device(&self) -> &Layout {
        if self.is_captured_on_device { &self.largest } else { &self.on_device_largest }
    }

    /// The largest batch of at most `qo_tokens` queries; `None` if that is the one which the device plans already.
    pub(super) fn largest_within(&self, qo_tokens: Option<u32>) -> Result<Option<Layout>, CudaError> {
        let qo_tokens = qo_tokens.map_or(self.capacity.qo_tokens, |most| most.min(self.capacity.qo_tokens));
        let changes = self.on_device_largest.qo_tokens() != qo_tokens as usize;
        Ok(changes.then(|| BatchCapacity { qo_tokens, ..self.capacity }.largest()).transpose()?)
    }

    /// Packs the current work list for its upload.
    pub(super) fn pack(&mut self, layout: &Layout) -> Result<&[u8], CudaError> {
        self.blob.repack_within(&self.counts, layout, &self.work)?;
        Ok(&self.blob.bytes)
    }
}

/// The planner kernel of a plan, with its parameters and its grid.
#[derive(Debug)]
pub(super) struct DevicePlanning {
    pub(super) planner: Arc<Planner>,
    /// The parameters without those of the batch; planners of flat lists take the base.
    pub(super) params: MixedPlanParams,
    /// CTAs beside the one that plans.
    pub(super) other_ctas: u32,
    /// Threads of a CTA.
    pub(super) threads: u32,
    /// Bytes of shared memory.
    pub(super) smem: u32,
    /// How batches with levels are planned; `None` for a capacity without.
    pub(super) levels: Option<LevelPlanning>,
}

/// The planner kernel of batches with levels, in a grid of as many CTAs.
#[derive(Debug)]
pub(super) struct LevelPlanning {
    pub(super) planner: Arc<Planner>,
    /// The parameters without those of the batch.
    pub(super) params: CascadePlanParams,
    pub(super) threads: u32,
    pub(super) smem: u32,
}
