//! The way from a batch to a plan.

use std::sync::Arc;

use attn_core::batch::{Batch, BatchCapacity, Layout};
use attn_core::plan::{ListRule, PlanBlob, PlanCapacity, PlanScratch, WorkList};

use super::capacity::ReservedCapacity;
use super::launches::Launches;
use super::plan_workspace::PlanWorkspace;
use super::sections::Sections;
use super::{CudaPlan, PlannedBatch};
use crate::cuda::attention::bound::{BatchBinding, BoundAttention};
use crate::cuda::attention::kernels::LoadedKernels;
use crate::cuda::driver::captured::Name;
use crate::cuda::{CudaAttention, CudaError, CudaStream, CudaWorkspace, SelectedKernel};

impl CudaAttention {
    /// Bytes of workspace that [`CudaAttention::plan`] takes, exactly. With a capacity they are the same for every
    /// batch.
    ///
    /// # Errors
    ///
    /// The errors of [`CudaAttention::plan`].
    pub fn workspace_size(
        &self,
        batch: &Batch<'_>,
        layers: &[&CudaAttention],
        capacity: Option<&BatchCapacity>,
    ) -> Result<usize, CudaError> {
        let bound = &*self.bound;
        let (layout, loaded, binding, capacity) = self.select(batch, layers, capacity)?;
        match capacity {
            Some(capacity) => {
                let counts = PlanCapacity::of(&capacity, &bound.variant, bound.heads, &loaded.rule)?;
                Ok(Sections::within(bound.heads, bound.value_dim(), &loaded.kernels, &counts, &capacity, &loaded.rule)?
                    .bytes)
            }
            None => {
                let work = work_list(bound, &layout, &loaded.rule, &binding)?;
                Ok(Sections::of(bound.heads, bound.value_dim(), &loaded.kernels, &work, &layout)?.bytes)
            }
        }
    }

    /// From a batch to a plan in a workspace, which grows if it must: binds the variant to the lengths of the batch,
    /// selects and loads the kernels, builds the work list and uploads it.
    ///
    /// Without a stream this returns when the plan has arrived on the device. With one it does not wait: the plan
    /// arrives in the order of the stream. Either is ordered after runs that still read the workspace's previous plan.
    ///
    /// The plan runs as any of `layers` too ([`CudaPlan::run`]). If they see different keys (another window), the work
    /// list covers all keys that any of them sees, and each skips what its own mask hides.
    ///
    /// With a capacity there is workspace for every batch within it. [`CudaPlan::update`] can then give the plan
    /// another batch, and a captured run can be replayed with it. The capacity selects one kernel for all batches. Work
    /// is split as without, so with the same kernel a batch gives the same bits. With a capacity for levels
    /// ([`BatchCapacity::in_levels`]) the plan uses the mixed kernel. A cascade then runs level by level where the cost
    /// model predicts a gain. Otherwise it runs flattened, and so it does for a variant or heads that do not support
    /// shared prefixes.
    ///
    /// # Errors
    ///
    /// A batch that is not sound or exceeds the capacity, a parameter that does not fit its lengths, no kernel, or no
    /// memory; a [`LayerError`](attn_core::expr::LayerError) for a layer that cannot share the plan.
    pub fn plan(
        &self,
        batch: &Batch<'_>,
        layers: &[&CudaAttention],
        capacity: Option<&BatchCapacity>,
        stream: Option<&CudaStream>,
        workspace: &mut CudaWorkspace,
    ) -> Result<CudaPlan, CudaError> {
        let device = &self.bound.device;
        device.check_same("workspace", workspace.device())?;
        if let Some(stream) = stream {
            device.check_same("stream", stream.device())?;
        }
        let (layout, loaded, binding, capacity) = self.select(batch, layers, capacity)?;
        match capacity {
            Some(capacity) => plan_within(&self.bound, &capacity, stream, layout, loaded, binding, workspace),
            None => plan(&self.bound, stream, layout, loaded, binding, workspace),
        }
    }

    /// The layout that a batch runs with, its kernels, the variant bound to its lengths, and the capacity of its plan.
    fn select(
        &self,
        batch: &Batch<'_>,
        layers: &[&CudaAttention],
        capacity: Option<&BatchCapacity>,
    ) -> Result<(Layout, LoadedKernels, BatchBinding, Option<BatchCapacity>), CudaError> {
        let bound = &self.bound;
        let layers = layers.iter().map(|layer| &layer.bound);
        let layout = batch.validate()?;
        let Some(capacity) = capacity else {
            let binding = bound.bind_batch(&layout, layers)?;
            let (layout, loaded) = bound.kernels_for(&binding.variant, layout)?;
            return Ok((layout, loaded, binding, None));
        };
        let (capacity, loaded) = bound.kernels_within(capacity)?;
        let layout = bound.levels_within(layout, &capacity, &loaded.rule)?;
        capacity.check(&layout)?;
        bound.check_batch_invariance(&layout, SelectedKernel::of(loaded.traits()))?;
        let binding = bound.bind_batch(&layout, layers)?;
        Ok((layout, loaded, binding, Some(capacity)))
    }
}

/// Builds the work list of a batch and uploads it into a workspace.
fn plan(
    attention: &Arc<BoundAttention>,
    stream: Option<&CudaStream>,
    layout: Layout,
    loaded: LoadedKernels,
    binding: BatchBinding,
    workspace: &mut CudaWorkspace,
) -> Result<CudaPlan, CudaError> {
    let work = work_list(attention, &layout, &loaded.rule, &binding)?;
    let args = attention.args_for(&binding.variant)?;
    let sections = Sections::of(attention.heads, attention.value_dim(), &loaded.kernels, &work, &layout)?;
    let launches = Launches::of_batch(attention, loaded.kernels, args, &layout, &work);
    let workspace = PlanWorkspace::upload(workspace, stream, sections, &PlanBlob::pack(&layout, &work).bytes)?;
    Ok(CudaPlan {
        attention: attention.clone(),
        layers: binding.layers,
        batch: PlannedBatch::new(layout, &work),
        launches,
        workspace,
        reserved: None,
        captured: Name::of_plan(attention.device.ordinal()),
    })
}

/// A plan with sections and grids for every batch within a capacity, where [`plan`] makes one for a batch alone.
/// `layout` is within it.
fn plan_within(
    attention: &Arc<BoundAttention>,
    capacity: &BatchCapacity,
    stream: Option<&CudaStream>,
    layout: Layout,
    loaded: LoadedKernels,
    binding: BatchBinding,
    workspace: &mut CudaWorkspace,
) -> Result<CudaPlan, CudaError> {
    let work = work_list(attention, &layout, &loaded.rule, &binding)?;
    let args = attention.args_for(&binding.variant)?;
    let LoadedKernels { kernels, rule } = loaded;
    let counts = PlanCapacity::of(capacity, &attention.variant, attention.heads, &rule)?;
    let sections = Sections::within(attention.heads, attention.value_dim(), &kernels, &counts, capacity, &rule)?;
    let launches = Launches::within(attention, kernels, args, capacity, &counts, &work);
    let batch = PlannedBatch::new(layout, &work);
    let mut reserved = ReservedCapacity::new(capacity, counts, rule, work)?;
    let workspace = PlanWorkspace::upload(workspace, stream, sections, reserved.pack(&batch.layout)?)?;
    workspace.reserve_updates()?; // an update allocates nothing
    Ok(CudaPlan {
        attention: attention.clone(),
        layers: binding.layers,
        batch,
        launches,
        workspace,
        reserved: Some(Box::new(reserved)),
        captured: Name::of_plan(attention.device.ordinal()),
    })
}

/// The work list of a batch, for all keys that the attention or any of its layers sees.
fn work_list(
    attention: &BoundAttention,
    layout: &Layout,
    rule: &ListRule,
    binding: &BatchBinding,
) -> Result<WorkList, CudaError> {
    let layers: Vec<_> = binding.layers.iter().map(|layer| &layer.variant).collect();
    let mut work = WorkList::default();
    work.rebuild_for(&mut PlanScratch::default(), &binding.variant, &layers, layout, attention.heads, rule)?;
    Ok(work)
}
