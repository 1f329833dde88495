//! Attention on a CUDA device: a bound variant, its arguments and its kernels.

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

use attn_core::batch::Layout;
use attn_core::dtype::Dtypes;
use attn_core::expr::Variant;
use attn_core::spec::{AttentionOptions, HeadDimVo, Heads, KernelKind};

use crate::cuda::{CudaError, Device};
use bound::BoundAttention;

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
}
