//! Attention on a CUDA device, and the way from a batch to a plan.

pub(super) mod bound;
mod cascade;
pub(super) mod kernel;
pub(super) mod kernel_cache;
pub(super) mod kernels;
mod layers;
mod parameter_tensors;
pub(super) mod planner;
pub(super) mod prepare;

use std::sync::Arc;

use attn_core::{
    batch::{Batch, BatchCapacity, Layout},
    dtype::Dtypes,
    expr::Variant,
    spec::{AttentionOptions, HeadDimVo, Heads, KernelKind},
};

use crate::cuda::{CudaError, CudaPlan, CudaStream, CudaWorkspace, Device, SelectedKernel};
use bound::{BatchBinding, BoundAttention};
use kernels::LoadedKernels;

/// A bound variant, from which plans are made. Cheap to clone. `Send` and `Sync`: threads may plan at once, each into a
/// workspace of its own.
#[derive(Clone, Debug)]
pub struct CudaAttention {
    pub(super) bound: Arc<BoundAttention>,
}

impl CudaAttention {
    /// Binds a variant: checks its parameters and uploads its tensors. Compiles nothing yet.
    ///
    /// # Errors
    ///
    /// Heads or types without a kernel, a hook that no kernel runs, a parameter that does not fit, and
    /// [`Device::costs`].
    pub fn new(
        device: &Device,
        variant: &Variant,
        heads: Heads,
        dtypes: Dtypes,
        options: AttentionOptions,
    ) -> Result<Self, CudaError> {
        Ok(CudaAttention { bound: Arc::new(BoundAttention::new(device, variant, heads, dtypes, options)?) })
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

    /// The kernel family for a batch ([`KernelSelector::select`](crate::select::KernelSelector::select)).
    #[must_use]
    pub fn choose(&self, layout: &Layout) -> KernelKind {
        self.bound.selector.select(layout).kind
    }

    /// Bytes of workspace that [`CudaAttention::plan`] takes, exactly. With a capacity they are the same for every
    /// batch.
    ///
    /// # Errors
    ///
    /// As [`CudaAttention::plan`].
    pub fn workspace_size(
        &self,
        batch: &Batch<'_>,
        layers: &[&CudaAttention],
        capacity: Option<&BatchCapacity>,
    ) -> Result<usize, CudaError> {
        let (layout, loaded, binding, capacity) = self.select(batch, layers, capacity)?;
        match capacity {
            Some(capacity) => CudaPlan::workspace_size_within(&self.bound, &capacity, &loaded),
            None => CudaPlan::workspace_size(&self.bound, &layout, &loaded, &binding),
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
            Some(capacity) => {
                CudaPlan::with_capacity(&self.bound, &capacity, stream, layout, loaded, binding, workspace)
            }
            None => CudaPlan::new(&self.bound, stream, layout, loaded, binding, workspace),
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
