//! Attention on a CUDA device, and the way from a batch to a plan.

use std::sync::Arc;

use attn_core::{
    batch::{Batch, BatchCapacity, Layout},
    dtype::Dtypes,
    expr::Variant,
    spec::{HeadDimVo, Heads, KernelKind},
};

use super::{
    CudaError, Device, Kernel, Options, Plan, SelectedKernel, Stream, Workspace, bound::BoundAttention,
    kernel_cache::KernelKey,
};

/// A bound variant, from which plans are made. Cheap to clone. `Send` and `Sync`: threads may plan at once, each into a
/// workspace of its own.
#[derive(Clone, Debug)]
pub struct Attention {
    pub(super) bound: Arc<BoundAttention>,
}

impl Attention {
    /// Binds a variant: checks its parameters and uploads its tensors. Compiles nothing yet.
    ///
    /// # Errors
    ///
    /// Heads or types without a kernel, a hook that no kernel runs, a parameter that does not fit.
    pub fn new(
        device: &Device,
        variant: &Variant,
        heads: Heads,
        dtypes: Dtypes,
        options: Options,
    ) -> Result<Self, CudaError> {
        let bound = BoundAttention::new(device, variant, heads, dtypes, options)?;
        bound.check_sources()?;
        Ok(Attention { bound: Arc::new(bound) })
    }

    /// The bound variant.
    #[must_use]
    pub fn variant(&self) -> &Variant {
        &self.bound.variant
    }
    /// The head counts and the head dimension.
    #[must_use]
    pub fn heads(&self) -> Heads {
        self.bound.heads
    }
    /// Elements of a value, and whether values are stored in the keys.
    #[must_use]
    pub fn head_dim_vo(&self) -> HeadDimVo {
        self.bound.head_dim_vo
    }
    /// The element types.
    #[must_use]
    pub fn dtypes(&self) -> Dtypes {
        self.bound.dtypes
    }
    /// The device.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.bound.device
    }

    /// The kernel of a family, compiled and loaded the first time. Planning does the same; call this to have it done
    /// earlier. For a union, this prepares the kernels of all branches and returns the first.
    ///
    /// # Errors
    ///
    /// No cubin, or one that does not load.
    pub fn kernel(&self, kind: KernelKind, paged: bool) -> Result<Arc<Kernel>, CudaError> {
        let key = KernelKey::without_levels(self.bound.selector.kernel_of(kind), paged);
        Ok(self.bound.kernels(key)?.swap_remove(0)) // there is at least one branch
    }

    /// The kernel family for a batch ([`KernelSelector::select`](crate::select::KernelSelector::select)).
    #[must_use]
    pub fn choose(&self, layout: &Layout) -> KernelKind {
        self.bound.selector.select(layout).kind
    }

    /// Bytes of workspace that a plan of this batch takes, exactly.
    ///
    /// # Errors
    ///
    /// As [`Attention::plan`].
    pub fn workspace_size(&self, batch: &Batch<'_>) -> Result<usize, CudaError> {
        self.workspace_size_for(batch, &[])
    }

    /// Bytes of workspace that [`Attention::plan_for`] takes, exactly.
    ///
    /// # Errors
    ///
    /// As [`Attention::plan_for`].
    pub fn workspace_size_for(&self, batch: &Batch<'_>, layers: &[&Attention]) -> Result<usize, CudaError> {
        let layout = batch.validate()?;
        let binding = self.bound.bind_batch(&layout, layers.iter().map(|layer| &layer.bound))?;
        let (layout, loaded) = self.bound.kernels_for(&binding.variant, layout)?;
        Plan::workspace_size(&self.bound, &layout, &loaded, &binding)
    }

    /// Bytes of workspace that a plan with this capacity takes, exactly, whatever its batch.
    ///
    /// # Errors
    ///
    /// As [`Attention::plan_with_capacity`].
    pub fn workspace_size_with_capacity(&self, capacity: &BatchCapacity) -> Result<usize, CudaError> {
        let (capacity, loaded) = self.bound.kernels_within(capacity)?;
        Plan::workspace_size_within(&self.bound, &capacity, &loaded)
    }

    /// Plans a batch into a workspace, which grows if it must. Returns when the plan has arrived on the device; waits
    /// for the device first where a run may still read the workspace's previous plan.
    ///
    /// # Errors
    ///
    /// A batch that is not sound, a parameter that does not fit its lengths, no kernel, or no memory.
    pub fn plan(&self, batch: &Batch<'_>, workspace: &mut Workspace) -> Result<Plan, CudaError> {
        self.plan_batch(None, batch, &[], workspace)
    }

    /// As [`Attention::plan`], without waiting: the plan arrives in the order of the stream, the only one that may run
    /// it. Where the workspace's previous plan ran on another stream, this waits for the device all the same.
    ///
    /// # Errors
    ///
    /// As [`Attention::plan`].
    pub fn plan_on(&self, stream: &Stream, batch: &Batch<'_>, workspace: &mut Workspace) -> Result<Plan, CudaError> {
        self.plan_batch(Some(stream), batch, &[], workspace)
    }

    /// As [`Attention::plan`], for several layers: the plan runs as any of `layers` too ([`Plan::run_layer`]). If the
    /// layers see different keys (another window), the work list covers all keys that any of them sees, and each skips
    /// what its own mask hides.
    ///
    /// # Errors
    ///
    /// As [`Attention::plan`], and a [`LayerError`](attn_core::plan::LayerError) for a layer that cannot share the
    /// plan.
    pub fn plan_for(
        &self,
        batch: &Batch<'_>,
        layers: &[&Attention],
        workspace: &mut Workspace,
    ) -> Result<Plan, CudaError> {
        self.plan_batch(None, batch, layers, workspace)
    }

    /// From a batch to a plan: bind the variant to its lengths, select and load the kernels, build the work list and
    /// upload it.
    fn plan_batch(
        &self,
        stream: Option<&Stream>,
        batch: &Batch<'_>,
        layers: &[&Attention],
        workspace: &mut Workspace,
    ) -> Result<Plan, CudaError> {
        let device = &self.bound.device;
        device.check_same("workspace", workspace.device())?;
        if let Some(stream) = stream {
            device.check_same("stream", stream.device())?;
        }
        let layout = batch.validate()?;
        let binding = self.bound.bind_batch(&layout, layers.iter().map(|layer| &layer.bound))?;
        let args = self.bound.args_for(&binding.variant)?;
        let (layout, loaded) = self.bound.kernels_for(&binding.variant, layout)?;
        Plan::new(&self.bound, stream, layout, loaded, binding, args, workspace)
    }

    /// As [`Attention::plan`], with workspace for every batch within a capacity. [`Plan::update`] can then give the
    /// plan another batch, and a captured run can be replayed with it. The capacity selects one kernel for all batches.
    /// Work is split as by [`Attention::plan`], so with the same kernel a batch gives the same bits.
    ///
    /// With a capacity for levels ([`BatchCapacity::in_levels`]) the plan uses the mixed kernel. A cascade then runs
    /// level by level where the cost model predicts a gain. Otherwise it runs flattened, and so it does for a variant
    /// or heads that do not support shared prefixes.
    ///
    /// # Errors
    ///
    /// As [`Attention::plan`], and a batch that exceeds the capacity.
    pub fn plan_with_capacity(
        &self,
        batch: &Batch<'_>,
        capacity: &BatchCapacity,
        workspace: &mut Workspace,
    ) -> Result<Plan, CudaError> {
        self.plan_for_with_capacity(batch, &[], capacity, workspace)
    }

    /// As [`Attention::plan_with_capacity`], for layers: see [`Attention::plan_for`].
    ///
    /// # Errors
    ///
    /// As both.
    pub fn plan_for_with_capacity(
        &self,
        batch: &Batch<'_>,
        layers: &[&Attention],
        capacity: &BatchCapacity,
        workspace: &mut Workspace,
    ) -> Result<Plan, CudaError> {
        self.bound.device.check_same("workspace", workspace.device())?;
        let layout = batch.validate()?;
        let (capacity, loaded) = self.bound.kernels_within(capacity)?;
        let layout = self.bound.levels_within(layout, &capacity, &loaded.rule)?;
        capacity.check(&layout)?;
        self.bound.check_batch_invariance(&layout, SelectedKernel::of(loaded.traits()))?;
        let binding = self.bound.bind_batch(&layout, layers.iter().map(|layer| &layer.bound))?;
        let args = self.bound.args_for(&binding.variant)?;
        Plan::with_capacity(&self.bound, &capacity, layout, loaded, binding, args, workspace)
    }
}
