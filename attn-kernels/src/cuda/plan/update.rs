//! Updates of a plan's batch by the host.

use std::mem;

use attn_core::batch::{Batch, BatchCapacity, BatchError};

use super::{PlannedBatch, capacity::ReservedCapacity};
use crate::cuda::{CudaError, CudaPlan, CudaStream, SelectedKernel};

impl CudaPlan {
    /// Gives another batch to a plan that was made with a capacity, in the order of the stream: runs that are launched
    /// there afterwards run this batch, and so do replays of runs that were captured before. Grids of a captured run
    /// are sized for the capacity; CTAs without work exit, and requests without queries cost next to nothing and write
    /// nothing.
    ///
    /// The work list in the workspace is overwritten, after earlier runs and replays of the plan on other streams.
    /// Nothing is allocated once batches have been as large as this one, except for a union, for a cascade, and for a
    /// variant whose tensors depend on the lengths of a batch.
    ///
    /// # Errors
    ///
    /// A plan without capacity or one that is stale, a batch that is not sound or exceeds the capacity, parameter
    /// tensors whose content depends on the batch, a KV list that exceeds the capacity, a stream that is being
    /// captured. Nothing is changed then: the plan keeps its batch.
    pub fn update(&mut self, stream: &CudaStream, batch: &Batch<'_>) -> Result<(), CudaError> {
        let attention = &*self.attention;
        attention.device.check_same("stream", stream.device())?;
        if !self.is_current() {
            return Err(CudaError::StalePlan);
        }
        let Some(reserved) = self.reserved.as_deref_mut() else { return Err(BatchError::NoCapacity.into()) };
        stream.refuse_capture("update a plan")?;
        batch.validate_into(&mut reserved.next)?;
        if reserved.next.has_levels() {
            let next = mem::take(&mut reserved.next);
            reserved.next = attention.levels_within(next, &reserved.capacity, &reserved.rule)?;
        }
        reserved.capacity.check(&reserved.next)?;
        attention.check_batch_invariance(&reserved.next, SelectedKernel::of(self.launches.kernel().traits()))?;
        let ReservedCapacity { next, work, scratch, rule, .. } = &mut *reserved;
        let layers: Vec<_> = self.layers.iter().map(|layer| &layer.variant).collect();
        if attention.depends_on_lengths {
            let bound = attention.variant_for(next)?;
            // given tensors are those of every batch
            if attention.has_defaults_over_lengths() {
                let mut branches = self.launches.branches.iter().zip(bound.branches());
                if !branches.all(|(branch, variant)| branch.args.are_of(&variant)) {
                    return Err(CudaError::ParameterTensors);
                }
            }
            self.layers.iter().try_for_each(|layer| layer.check_own_args(next))?;
            work.rebuild_for(scratch, &bound, &layers, next, attention.heads, rule)?;
        } else {
            work.rebuild_for(scratch, &attention.variant, &layers, next, attention.heads, rule)?;
        }
        reserved.blob.repack_within(&reserved.counts, &reserved.next, &reserved.work)?;
        self.workspace.lock()?.overwrite(stream, &reserved.blob.bytes)?;
        let batch = PlannedBatch::new(mem::take(&mut reserved.next), &reserved.work);
        reserved.next = mem::replace(&mut self.batch, batch).layout; // its memory is used again
        reserved.batch_is_on_device = reserved.is_captured_on_device;
        Ok(())
    }

    /// The largest batch that the plan may be given by [`CudaPlan::update`]; `None` for a plan without capacity.
    #[must_use]
    pub fn capacity(&self) -> Option<&BatchCapacity> {
        self.reserved.as_deref().map(|reserved| &reserved.capacity)
    }
}
