//! The capacity of a plan whose batch changes in place, so that captured launches can be replayed with other batches.

use attn_core::batch::{BatchCapacity, Layout};

use super::{
    CudaError,
    planner::DevicePlanning,
    work::{Blob, ListCapacity, PlanningMemory, Rule, Work},
};

/// The capacity of a plan whose batch changes in place, and the host memory that planning into it takes.
#[derive(Debug)]
pub(super) struct ReservedCapacity {
    pub(super) capacity: BatchCapacity,
    pub(super) counts: ListCapacity,
    /// A batch whose tensors are at least as large as those of every batch within the capacity.
    pub(super) largest: Layout,
    pub(super) rule: Rule,
    /// What planning on the device needs, after the first use.
    pub(super) on_device: Option<DevicePlanning>,
    /// Whether the device has planned the current batch, or will in the order of a stream: the host does not know its
    /// lengths.
    pub(super) batch_is_on_device: bool,
    /// Whether an update on the device was captured: a replay brings a batch of unknown lengths back.
    pub(super) is_captured_on_device: bool,
    /// The next batch, until it has been checked.
    pub(super) next: Layout,
    pub(super) work: Work,
    pub(super) scratch: PlanningMemory,
    pub(super) blob: Blob,
}

impl ReservedCapacity {
    pub(super) fn new(
        capacity: &BatchCapacity,
        counts: ListCapacity,
        rule: Rule,
        work: Work,
    ) -> Result<Self, CudaError> {
        Ok(ReservedCapacity {
            capacity: *capacity,
            counts,
            largest: capacity.largest()?,
            rule,
            on_device: None,
            batch_is_on_device: false,
            is_captured_on_device: false,
            next: Layout::default(),
            blob: Blob::of(&work),
            work,
            scratch: PlanningMemory::default(),
        })
    }

    /// Packs the current work list for its upload.
    pub(super) fn pack(&mut self, layout: &Layout) -> Result<&[u8], CudaError> {
        self.blob.repack_within(&self.counts, layout, &self.work)?;
        Ok(self.blob.bytes())
    }
}
