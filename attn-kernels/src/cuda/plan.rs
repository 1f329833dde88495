//! A plan: a batch, its work list, and where both lie in a workspace.

use std::{ops::Range, sync::Arc};

use attn_core::{
    batch::{BatchCapacity, Layout},
    plan::{BranchWork, PlanCapacity},
    spec::KernelKind,
};

use super::{
    CudaError, Kernel, Stream, Workspace,
    args::Args,
    bound::{BatchBinding, BoundAttention},
    capacity::ReservedCapacity,
    kernels::LoadedKernels,
    sections::Sections,
    work::{ListCapacity, MixedGrid, Rule, Work},
    workspace::WorkspaceMemory,
};

/// A planned batch. It runs any number of times: for every layer, and every step with the same lengths. A plan that was
/// made with a capacity can be given other batches ([`Plan::update`]).
///
/// `Send` and `Sync`: threads may run it at the same time, on any streams. Its runs share partial states and work
/// tiles, so they are ordered one after the other.
#[derive(Debug)]
pub struct Plan {
    pub(super) attention: Arc<BoundAttention>,
    /// Other layers that the work list covers. No two of them have the same visibility.
    pub(super) layers: Vec<Arc<BoundAttention>>,
    /// The launches of the main kernel: one for each branch of a union, else one.
    pub(super) branches: Vec<Branch>,
    /// Keys that work items read, per KV head; with a capacity those of the first batch.
    pub(super) keys_read: u64,
    /// Whether work items have about the same length; with a capacity those of the first batch.
    pub(super) even: bool,
    pub(super) layout: Layout,
    pub(super) sections: Sections,
    pub(super) memory: Arc<WorkspaceMemory>,
    /// Work items and merges of the batch.
    pub(super) counts: (u32, u32),
    /// Merges that are launched: those of the batch, or those of the capacity.
    pub(super) merges: u32,
    /// The grid of a mixed launch.
    pub(super) mixed: Option<MixedGrid>,
    pub(super) generation: u64,
    /// For a plan with a capacity.
    pub(super) reserved: Option<Box<ReservedCapacity>>,
}

/// The launch of the main kernel for one branch of the variant.
#[derive(Debug)]
pub(super) struct Branch {
    pub(super) kernel: Arc<Kernel>,
    pub(super) args: Arc<Args>,
    /// The range of the branch in the list of work items.
    pub(super) items: Range<usize>,
    /// The range of the branch in the list of workers.
    pub(super) workers: Range<usize>,
}

impl Branch {
    fn new(kernel: Arc<Kernel>, args: Arc<Args>, work: BranchWork) -> Self {
        // the last entry is the end of the last worker
        let workers = work.workers.start..work.workers.end.saturating_sub(1).max(work.workers.start);
        Branch { kernel, args, items: work.items, workers }
    }

    /// The launch of branch number `branch`, with the grid of the capacity.
    fn within(capacity: &PlanCapacity, branch: usize, kernel: Arc<Kernel>, args: Arc<Args>) -> Self {
        let all = |each: usize| branch * each..(branch + 1) * each;
        Branch { kernel, args, items: all(capacity.items), workers: all(capacity.workers) }
    }

    /// The launch of a mixed kernel, whose work lists are elsewhere.
    fn mixed(kernel: Arc<Kernel>, args: Arc<Args>) -> Self {
        Branch { kernel, args, items: 0..0, workers: 0..0 }
    }
}

impl Plan {
    /// Builds the work list of a batch and uploads it into a workspace.
    pub(super) fn new(
        attention: &Arc<BoundAttention>,
        stream: Option<&Stream>,
        layout: Layout,
        loaded: LoadedKernels,
        binding: BatchBinding,
        workspace: &mut Workspace,
    ) -> Result<Self, CudaError> {
        let work = work_list(attention, &layout, &loaded.rule, &binding)?;
        let args = attention.args_for(&binding.variant)?;
        let kernels = loaded.kernels;
        let sections = Sections::of(attention.heads, attention.value_dim(), &kernels, &work, &layout)?;
        let blob = work.pack(&layout);
        let (memory, generation) = workspace.upload_plan(stream, blob.bytes(), &sections.zeros(), sections.bytes)?;
        let branches = kernels.into_iter().zip(args);
        let branches = match &work {
            Work::Flat(work) => {
                branches.zip(work.branches()).map(|((kernel, args), work)| Branch::new(kernel, args, work)).collect()
            }
            Work::Mixed(_) => branches.map(|(kernel, args)| Branch::mixed(kernel, args)).collect(),
        };
        let counts = work.counts();
        Ok(Plan {
            attention: attention.clone(),
            layers: binding.layers,
            keys_read: work.keys_read(),
            even: work.is_even(),
            branches,
            mixed: work.mixed(&layout),
            layout,
            sections,
            memory,
            counts,
            merges: counts.1,
            generation,
            reserved: None,
        })
    }

    /// As [`Plan::new`], with sections and grids for every batch within a capacity. `layout` is within it.
    pub(super) fn with_capacity(
        attention: &Arc<BoundAttention>,
        capacity: &BatchCapacity,
        stream: Option<&Stream>,
        layout: Layout,
        loaded: LoadedKernels,
        binding: BatchBinding,
        workspace: &mut Workspace,
    ) -> Result<Self, CudaError> {
        let work = work_list(attention, &layout, &loaded.rule, &binding)?;
        let args = attention.args_for(&binding.variant)?;
        let LoadedKernels { kernels, rule } = loaded;
        let counts = ListCapacity::of(capacity, &attention.variant, attention.heads, &rule)?;
        let sections = Sections::within(attention.heads, attention.value_dim(), &kernels, &counts, capacity)?;
        let (keys_read, even, of_batch) = (work.keys_read(), work.is_even(), work.counts());
        let mut reserved = ReservedCapacity::new(capacity, counts, rule, work)?;
        let (memory, generation) =
            workspace.upload_plan(stream, reserved.pack(&layout)?, &sections.zeros(), sections.bytes)?;
        memory.reserve_updates(sections.lists.total())?; // an update allocates nothing
        let branches = kernels.into_iter().zip(args).enumerate();
        Ok(Plan {
            attention: attention.clone(),
            layers: binding.layers,
            keys_read,
            even,
            branches: branches
                .map(|(branch, (kernel, args))| match &counts {
                    ListCapacity::Flat(capacity) => Branch::within(capacity, branch, kernel, args),
                    ListCapacity::Mixed(_) => Branch::mixed(kernel, args),
                })
                .collect(),
            mixed: counts.mixed(capacity),
            layout,
            sections,
            memory,
            counts: of_batch,
            merges: counts.merges() as u32, // the capacity counts in i32
            generation,
            reserved: Some(Box::new(reserved)),
        })
    }

    /// Bytes of workspace that [`Plan::new`] takes.
    pub(super) fn workspace_size(
        attention: &BoundAttention,
        layout: &Layout,
        loaded: &LoadedKernels,
        binding: &BatchBinding,
    ) -> Result<usize, CudaError> {
        let work = work_list(attention, layout, &loaded.rule, binding)?;
        Ok(Sections::of(attention.heads, attention.value_dim(), &loaded.kernels, &work, layout)?.bytes)
    }

    /// Bytes of workspace that [`Plan::with_capacity`] takes.
    pub(super) fn workspace_size_within(
        attention: &BoundAttention,
        capacity: &BatchCapacity,
        loaded: &LoadedKernels,
    ) -> Result<usize, CudaError> {
        let counts = ListCapacity::of(capacity, &attention.variant, attention.heads, &loaded.rule)?;
        Ok(Sections::within(attention.heads, attention.value_dim(), &loaded.kernels, &counts, capacity)?.bytes)
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

    /// The batch; after [`Plan::update_on_device`] the last batch that the host knew.
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
    rule: &Rule,
    binding: &BatchBinding,
) -> Result<Work, CudaError> {
    let layers = binding.layers.iter().map(|layer| &layer.variant);
    Ok(Work::build(rule, &binding.variant, layers, layout, attention.heads)?)
}
