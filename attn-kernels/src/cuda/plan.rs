//! A plan: a batch, its work list, and where both lie in a workspace.

pub(super) mod batch_checker;
mod capacity;
mod device_batch;
mod device_update;
mod sections;
mod update;

use std::sync::Arc;

use attn_core::{
    batch::{BatchCapacity, Layout},
    plan::{ListRule, PlanBlob, PlanCapacity, PlanScratch, WorkList},
    spec::KernelKind,
};

use crate::{
    cuda::{
        CudaError, CudaStream, CudaWorkspace, Kernel,
        attention::{
            bound::{BatchBinding, BoundAttention},
            kernel_cache::BranchKernels,
            kernels::LoadedKernels,
        },
        driver::captured::{Kept, Name},
        memory::{args::Args, workspace::WorkspaceMemory},
    },
    launch::HeadOrder,
};
use capacity::ReservedCapacity;
use sections::Sections;

/// A planned batch. It runs any number of times: for every layer, and every step with the same lengths. A plan that was
/// made with a capacity can be given other batches ([`CudaPlan::update`]).
///
/// `Send` and `Sync`: threads may run it at the same time, on any streams. Its runs share partial states and work
/// tiles, so they are ordered one after the other.
#[derive(Debug)]
pub struct CudaPlan {
    pub(super) attention: Arc<BoundAttention>,
    /// Other layers that the work list covers. No two of them have the same visibility.
    pub(super) layers: Vec<Arc<BoundAttention>>,
    /// The launches of the main kernel: one for each branch of a union, else one.
    pub(super) branches: Vec<Branch>,
    /// Keys that work items read, per KV head; with a capacity those of the first batch.
    pub(super) keys_read: u64,
    /// The order of KV heads; with a capacity that of the first batch.
    pub(super) head_order: HeadOrder,
    pub(super) layout: Layout,
    pub(super) sections: Sections,
    pub(super) memory: Arc<WorkspaceMemory>,
    /// Work items and merges of the batch.
    pub(super) counts: (u32, u32),
    /// Merges that are launched: those of the batch, or those of the capacity.
    pub(super) merges: u32,
    /// Keys that are preprocessed: those of the batch, or those of the capacity.
    pub(super) preprocess_tokens: u32,
    pub(super) generation: u64,
    /// For a plan with a capacity.
    pub(super) reserved: Option<Box<ReservedCapacity>>,
    /// The name under which is kept what another library captured.
    pub(super) captured: Name,
}

/// The launch of the main kernel for one branch of the variant.
#[derive(Debug)]
pub(super) struct Branch {
    pub(super) kernel: Arc<Kernel>,
    pub(super) args: Arc<Args>,
}

impl CudaPlan {
    /// Builds the work list of a batch and uploads it into a workspace.
    pub(super) fn new(
        attention: &Arc<BoundAttention>,
        stream: Option<&CudaStream>,
        layout: Layout,
        loaded: LoadedKernels,
        binding: BatchBinding,
        workspace: &mut CudaWorkspace,
    ) -> Result<Self, CudaError> {
        let work = work_list(attention, &layout, &loaded.rule, &binding)?;
        let args = attention.args_for(&binding.variant)?;
        let kernels = loaded.kernels;
        let sections = Sections::of(attention.heads, attention.value_dim(), &kernels, &work, &layout)?;
        let blob = PlanBlob::pack(&layout, &work);
        let (memory, generation) = workspace.upload_plan(stream, &blob.bytes, &sections.zeros(), sections.bytes)?;
        let counts = counts(&work);
        Ok(CudaPlan {
            attention: attention.clone(),
            layers: binding.layers,
            keys_read: keys_read(&work),
            head_order: HeadOrder::of(&work, kernels[0].traits(), kernels[0].resident_ctas()),
            branches: branches(&kernels, args),
            preprocess_tokens: layout.preprocessed_keys() as u32,
            layout,
            sections,
            memory,
            counts,
            merges: counts.1,
            generation,
            reserved: None,
            captured: Name::of_plan(attention.device.ordinal()),
        })
    }

    /// As [`CudaPlan::new`], with sections and grids for every batch within a capacity. `layout` is within it.
    pub(super) fn with_capacity(
        attention: &Arc<BoundAttention>,
        capacity: &BatchCapacity,
        stream: Option<&CudaStream>,
        layout: Layout,
        loaded: LoadedKernels,
        binding: BatchBinding,
        workspace: &mut CudaWorkspace,
    ) -> Result<Self, CudaError> {
        let work = work_list(attention, &layout, &loaded.rule, &binding)?;
        let args = attention.args_for(&binding.variant)?;
        let LoadedKernels { kernels, rule } = loaded;
        let counts = PlanCapacity::of(capacity, &attention.variant, attention.heads, &rule)?;
        let sections = Sections::within(attention.heads, attention.value_dim(), &kernels, &counts, capacity)?;
        let (keys_read, of_batch) = (keys_read(&work), self::counts(&work));
        let head_order = HeadOrder::of(&work, kernels[0].traits(), kernels[0].resident_ctas());
        let merges = counts.merges as u32; // the capacity counts in i32
        let mut reserved = ReservedCapacity::new(capacity, counts, rule, work)?;
        let (memory, generation) =
            workspace.upload_plan(stream, reserved.pack(&layout)?, &sections.zeros(), sections.bytes)?;
        memory.reserve_updates(sections.lists.total)?; // an update allocates nothing
        Ok(CudaPlan {
            attention: attention.clone(),
            layers: binding.layers,
            keys_read,
            head_order,
            branches: branches(&kernels, args),
            preprocess_tokens: capacity.kv_tokens,
            layout,
            sections,
            memory,
            counts: of_batch,
            merges,
            generation,
            reserved: Some(Box::new(reserved)),
            captured: Name::of_plan(attention.device.ordinal()),
        })
    }

    /// Bytes of workspace that [`CudaPlan::new`] takes.
    pub(super) fn workspace_size(
        attention: &BoundAttention,
        layout: &Layout,
        loaded: &LoadedKernels,
        binding: &BatchBinding,
    ) -> Result<usize, CudaError> {
        let work = work_list(attention, layout, &loaded.rule, binding)?;
        Ok(Sections::of(attention.heads, attention.value_dim(), &loaded.kernels, &work, layout)?.bytes)
    }

    /// Bytes of workspace that [`CudaPlan::with_capacity`] takes.
    pub(super) fn workspace_size_within(
        attention: &BoundAttention,
        capacity: &BatchCapacity,
        loaded: &LoadedKernels,
    ) -> Result<usize, CudaError> {
        let counts = PlanCapacity::of(capacity, &attention.variant, attention.heads, &loaded.rule)?;
        Ok(Sections::within(attention.heads, attention.value_dim(), &loaded.kernels, &counts, capacity)?.bytes)
    }

    /// Keeps what the next launch uses, if another library captures the stream: a graph may replay it when the plan,
    /// its workspace and the layer are gone.
    pub(super) fn keep_captured(
        &self,
        stream: &CudaStream,
        layer: Option<&Arc<BoundAttention>>,
    ) -> Result<(), CudaError> {
        let layer = layer.unwrap_or(&self.attention);
        stream.keep_captured(self.captured, || {
            let args = self.branches.iter().map(|branch| branch.args.clone() as Kept);
            args.chain([self.memory.clone() as Kept, self.attention.clone(), layer.clone()])
        })
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
        self.memory.generation() == self.generation
    }

    /// The kernel family.
    #[must_use]
    pub fn kind(&self) -> KernelKind {
        self.kernel().traits().kind
    }

    /// The kernel; for a union that of the first branch.
    #[must_use]
    pub fn kernel(&self) -> &Kernel {
        &self.branches[0].kernel // there is at least one branch
    }

    /// The batch; after [`CudaPlan::update_on_device`] the last batch that the host knew.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Work items per KV head, and Q tiles that are merged from several KV splits.
    #[must_use]
    pub fn counts(&self) -> (u32, u32) {
        self.counts
    }

    /// Copies what hooks stored (`OutTensor`) into the handles of the attention's variant. Waits for all work of the
    /// device.
    ///
    /// # Errors
    ///
    /// A failure of the driver.
    pub fn read_outputs(&self) -> Result<(), CudaError> {
        self.branches.iter().try_for_each(|branch| branch.args.fetch())
    }

    /// Bytes of workspace in use.
    #[must_use]
    pub fn workspace_bytes(&self) -> usize {
        self.sections.bytes
    }
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

fn branches(kernels: &BranchKernels, args: Vec<Arc<Args>>) -> Vec<Branch> {
    kernels.iter().cloned().zip(args).map(|(kernel, args)| Branch { kernel, args }).collect()
}

/// The numbers of work items and merges.
pub(super) fn counts(work: &WorkList) -> (u32, u32) {
    (work.items.len() as u32, work.merges.len() as u32) // the planner counts in i32
}

/// Keys that work items read; in a mixed launch those of the decode part.
fn keys_read(work: &WorkList) -> u64 {
    let parts = &work.parts[..if work.is_mixed() { 1 } else { work.parts.len() }];
    let items = parts.iter().flat_map(|part| &work.items[part.items.clone()]);
    items.map(|item| (item.kv_end - item.kv_begin).max(0) as u64).sum()
}
