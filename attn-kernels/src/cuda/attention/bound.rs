//! A variant bound to heads, element types and a device.

use std::{ops::Deref, sync::Arc};

use attn_core::batch::{BatchCapacity, Layout};
use attn_core::dtype::Dtypes;
use attn_core::expr::{LayerError, Variant, Visibility, VisibilityInterner};
use attn_core::spec::{AttentionOptions, Heads};

use super::kernel_cache::KernelCache;
use crate::cuda::memory::args::Args;
use crate::cuda::{CudaError, Device};
use crate::problem::{Problem, has_defaults_over_lengths};

/// A variant bound to heads, element types and a device. Plans and attentions share it.
#[derive(Clone, Debug)]
pub(in crate::cuda) struct BoundAttention {
    pub(in crate::cuda) device: Device,
    /// What does not need the device.
    pub(super) problem: Problem,
    /// The arguments of each branch.
    pub(in crate::cuda) args: Vec<Arc<Args>>,
    pub(super) kernels: Arc<KernelCache>,
    /// The visibilities of all attentions that share the kernels, and the one of this attention.
    pub(super) visibilities: Arc<VisibilityInterner>,
    pub(in crate::cuda) visibility: Visibility,
}

impl Deref for BoundAttention {
    type Target = Problem;

    fn deref(&self) -> &Problem {
        &self.problem
    }
}

/// A variant bound to the lengths of a batch, and the layers of its plan.
pub(in crate::cuda) struct BatchBinding {
    pub(in crate::cuda) variant: Variant,
    /// Layers whose visibility differs from that of the attention and of each other.
    pub(in crate::cuda) layers: Vec<Arc<BoundAttention>>,
}

impl BoundAttention {
    /// Binds a variant and uploads its tensors.
    pub(super) fn new(
        device: &Device,
        variant: &Variant,
        heads: Heads,
        dtypes: Dtypes,
        options: AttentionOptions,
    ) -> Result<Self, CudaError> {
        let (capability, multiprocessors) = (device.capability(), device.multiprocessors());
        let problem = Problem::new(capability, multiprocessors, device.costs()?, variant, heads, dtypes, options)?;
        let visibilities = Arc::new(VisibilityInterner::default());
        Ok(BoundAttention {
            args: upload_args(device, &problem.branches)?,
            visibility: visibilities.of(&problem.variant),
            visibilities,
            device: device.clone(),
            problem,
            kernels: Arc::default(),
        })
    }

    /// The same attention with the parameters of `variant`, which has the same structure. It shares the kernels.
    pub(in crate::cuda) fn with_parameters(&self, variant: &Variant) -> Result<Self, CudaError> {
        let variant = variant.bind(&self.head_dim_vo.dims(self.heads, self.heads.dims()))?.stored_as(&self.variant);
        self.variant.check_structure(&variant).map_err(LayerError::from)?;
        let branches = variant.branches();
        let (args, visibility) = (upload_args(&self.device, &branches)?, self.visibilities.of(&variant));
        let mut bound = BoundAttention { args, visibility, ..self.clone() };
        (bound.problem.branches, bound.problem.variant) = (branches, variant);
        Ok(bound)
    }

    /// Elements of a value, and of an output.
    pub(in crate::cuda) fn value_dim(&self) -> u32 {
        self.head_dim_vo.dim(self.heads)
    }

    /// The variant, bound to the lengths of a batch.
    pub(in crate::cuda) fn variant_for(&self, layout: &Layout) -> Result<Variant, CudaError> {
        Ok(self.variant.bind(&self.head_dim_vo.dims(self.heads, layout.dims(self.heads)))?)
    }

    /// Binds the variant to the lengths of a batch, and checks the layers of its plan.
    pub(in crate::cuda) fn bind_batch<'a>(
        &self,
        layout: &Layout,
        layers: impl IntoIterator<Item = &'a Arc<BoundAttention>>,
    ) -> Result<BatchBinding, CudaError> {
        let variant = self.variant_for(layout)?;
        let mut others: Vec<Arc<BoundAttention>> = Vec::new();
        for layer in layers {
            if !self.shares_kernels(layer) {
                return Err(LayerError::Unrelated.into());
            }
            layer.check_own_args(layout)?;
            let known =
                self.visibility == layer.visibility || others.iter().any(|other| other.visibility == layer.visibility);
            if !known {
                others.push(layer.clone());
            }
        }
        Ok(BatchBinding { variant, layers: others })
    }

    /// The arguments of each branch for a variant that is bound to a batch. Tensors that depend on lengths are
    /// uploaded.
    pub(in crate::cuda) fn args_for(&self, variant: &Variant) -> Result<Vec<Arc<Args>>, CudaError> {
        let of_branch = |(branch, known): (Variant, &Arc<Args>)| {
            if known.are_of(&branch) { Ok(known.clone()) } else { Ok(Arc::new(Args::upload(&self.device, &branch)?)) }
        };
        variant.branches().into_iter().zip(&self.args).map(of_branch).collect()
    }

    /// Whether two attentions differ in parameters alone.
    pub(in crate::cuda) fn shares_kernels(&self, other: &BoundAttention) -> bool {
        Arc::ptr_eq(&self.kernels, &other.kernels)
    }

    /// Refuses a layer whose parameter tensors depend on the batch: a [run](crate::cuda::CudaPlan::run) of a layer
    /// passes the tensors that were uploaded when the layer was made.
    pub(in crate::cuda) fn check_own_args(&self, layout: &Layout) -> Result<(), CudaError> {
        if !self.depends_on_lengths {
            return Ok(());
        }
        let bound = self.variant_for(layout)?;
        if !self.has_defaults_over_lengths() {
            return Ok(());
        }
        let same = bound.branches().iter().zip(&self.args).all(|(branch, args)| args.are_of(branch));
        if same { Ok(()) } else { Err(LayerError::Lengths.into()) }
    }

    /// Refuses a parameter tensor without room for the largest batch of a capacity, where the host does not see each
    /// batch that runs.
    pub(in crate::cuda) fn check_capacity(&self, capacity: &BatchCapacity) -> Result<(), CudaError> {
        if self.depends_on_lengths {
            self.variant.bind(&self.head_dim_vo.dims(self.heads, capacity.dims(self.heads)))?;
        }
        Ok(())
    }

    /// The arguments of the first branch, and the variant of this branch.
    pub(super) fn first_branch(&self) -> (&Args, &Variant) {
        (&self.args[0], &self.branches[0]) // there is at least one branch
    }

    /// Whether each plan has tensors of its own, because defaults depend on the lengths of a batch.
    pub(in crate::cuda) fn has_defaults_over_lengths(&self) -> bool {
        has_defaults_over_lengths(&self.variant)
    }
}

/// The arguments of each branch, with their tensors on the device.
fn upload_args(device: &Device, branches: &[Variant]) -> Result<Vec<Arc<Args>>, CudaError> {
    branches.iter().map(|branch| Ok(Arc::new(Args::upload(device, branch)?))).collect()
}
