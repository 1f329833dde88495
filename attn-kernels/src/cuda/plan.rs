//! A plan: a batch, its work list, and where both lie in a workspace.

pub(super) mod batch_checker;
mod capacity;
mod device_batch;
mod device_update;
pub(super) mod launches;
mod make;
pub(super) mod plan_workspace;
mod sections;
mod update;

use std::sync::Arc;

use attn_core::{batch::Layout, expr::LayerError, plan::WorkList, spec::KernelKind};

use crate::cuda::attention::bound::BoundAttention;
use crate::cuda::driver::captured::{Kept, Name};
use crate::cuda::{CudaAttention, CudaError, CudaStream, Kernel};
use capacity::ReservedCapacity;
use launches::Launches;
use plan_workspace::PlanWorkspace;

/// A planned batch. It runs any number of times: for every layer, and every step with the same lengths. A plan that was
/// made with a capacity can be given other batches ([`CudaPlan::update`]).
///
/// `Send` and `Sync`: threads may run it at the same time, on any streams. Its runs share partial states and work
/// tiles, so they are ordered one after the other.
#[derive(Debug)]
pub struct CudaPlan {
    pub(super) attention: Arc<BoundAttention>,
    /// Other layers that the work list covers. No two of them have the same visibility.
    layers: Vec<Arc<BoundAttention>>,
    batch: PlannedBatch,
    pub(super) launches: Launches,
    pub(super) workspace: PlanWorkspace,
    /// For a plan with a capacity.
    reserved: Option<Box<ReservedCapacity>>,
    /// The name under which is kept what another library captured.
    captured: Name,
}

/// The batch of a plan, which updates replace.
#[derive(Debug)]
struct PlannedBatch {
    layout: Layout,
    /// Work items per KV head.
    items: u32,
    /// Q tiles that are merged from several KV splits.
    merges: u32,
}

impl PlannedBatch {
    fn new(layout: Layout, work: &WorkList) -> Self {
        let (items, merges) = (work.items.len() as u32, work.merges.len() as u32); // the planner counts in i32
        PlannedBatch { layout, items, merges }
    }
}

impl CudaPlan {
    /// Keeps what the next launch uses, if another library captures the stream: a graph may replay it when the plan,
    /// its workspace and the layer are gone.
    pub(super) fn keep_captured(
        &self,
        stream: &CudaStream,
        layer: Option<&Arc<BoundAttention>>,
    ) -> Result<(), CudaError> {
        let layer = layer.unwrap_or(&self.attention);
        stream.keep_captured(self.captured, || {
            let args = self.launches.branches.iter().map(|branch| branch.args.clone() as Kept);
            args.chain([self.workspace.kept(), self.attention.clone(), layer.clone()])
        })
    }

    /// Refuses a layer with other kernels, or whose visibility was not planned.
    pub(in crate::cuda) fn check_layer(&self, layer: &CudaAttention) -> Result<(), CudaError> {
        if !self.attention.shares_kernels(&layer.bound) {
            return Err(LayerError::Unrelated.into());
        }
        let mut planned = [&self.attention].into_iter().chain(&self.layers);
        if !planned.any(|known| known.visibility == layer.bound.visibility) {
            return Err(LayerError::NotPlanned.into());
        }
        layer.bound.check_own_args(&self.batch.layout)
    }

    /// The batch that the tensors of a run have to fit: a captured run may be replayed with any batch within the
    /// capacity.
    pub(super) fn largest(&self, stream: &CudaStream, layer: Option<&BoundAttention>) -> Result<&Layout, CudaError> {
        match self.reserved.as_deref() {
            Some(reserved) if reserved.batch_is_on_device || stream.is_capturing()? => {
                // an update binds the plan's own tensors to the batch, and no layer's
                layer.map_or(Ok(()), |layer| layer.check_capacity(&reserved.capacity))?;
                Ok(if stream.is_capturing()? { &reserved.largest } else { reserved.largest_on_device() })
            }
            _ => Ok(&self.batch.layout),
        }
    }

    /// Lets go of the memory and kernels that captured runs of this plan use, where another library captured them: its
    /// graphs must not be replayed any more. Without it they stay for as long as the process, also after the plan is
    /// dropped. The plan itself goes on.
    pub fn release_captured(&self) {
        self.captured.release();
    }

    /// Whether the workspace still holds this plan.
    #[must_use]
    pub fn is_current(&self) -> bool {
        self.workspace.is_current()
    }

    /// The kernel family.
    #[must_use]
    pub fn kind(&self) -> KernelKind {
        self.kernel().traits().kind()
    }

    /// The kernel; for a union that of the first branch.
    #[must_use]
    pub fn kernel(&self) -> &Kernel {
        self.launches.kernel()
    }

    /// The batch; after [`CudaPlan::update_on_device`] the last batch that the host knew.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.batch.layout
    }

    /// Work items per KV head, and Q tiles that are merged from several KV splits.
    #[must_use]
    pub fn counts(&self) -> (u32, u32) {
        (self.batch.items, self.batch.merges)
    }

    /// Copies what hooks stored (`OutTensor`) into the handles of the attention's variant. Waits for all work of the
    /// device.
    ///
    /// # Errors
    ///
    /// A failure of the driver.
    pub fn read_outputs(&self) -> Result<(), CudaError> {
        self.launches.branches.iter().try_for_each(|branch| branch.args.fetch())
    }

    /// Bytes of workspace in use.
    #[must_use]
    pub fn workspace_bytes(&self) -> usize {
        self.workspace.sections.bytes
    }
}
