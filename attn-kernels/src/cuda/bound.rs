//! A variant bound to heads, element types and a device.

use std::sync::Arc;

use attn_core::{
    batch::Layout,
    dtype::Dtypes,
    expr::{LayerError, Variant, Visibility, VisibilityInterner},
    plan::PlanError,
    spec::{AttentionOptions, DecodeBackend, HeadDimVo, Heads, KernelKind, PrefillBackend},
};

use super::{
    CudaError, Device,
    args::Args,
    kernel_cache::KernelCache,
    lengths::{has_defaults_over_lengths, names_lengths},
};
use crate::{compile::Arch, cost::HookClass, kernel_traits::KernelTraitsRequest, select::KernelSelector};

/// A variant bound to heads, element types and a device. Plans and attentions share it.
#[derive(Clone, Debug)]
pub(super) struct BoundAttention {
    pub(super) device: Device,
    pub(super) variant: Variant,
    /// The branches of a union, each of which has a launch of its own; for other variants the variant itself.
    pub(super) branches: Vec<Variant>,
    pub(super) heads: Heads,
    pub(super) head_dim_vo: HeadDimVo,
    pub(super) dtypes: Dtypes,
    pub(super) sm_scale: f32,
    /// The kernel family that options name.
    pub(super) kernel: Option<KernelKind>,
    pub(super) prefill: PrefillBackend,
    /// The decode backend that was chosen.
    pub(super) decode: Option<DecodeBackend>,
    pub(super) fixed_split_size: Option<u32>,
    pub(super) selector: KernelSelector,
    pub(super) hooks: HookClass,
    /// Whether shapes or requirements of the variant's parameters name lengths of a batch.
    pub(super) depends_on_lengths: bool,
    /// The arguments of each branch.
    pub(super) args: Vec<Arc<Args>>,
    pub(super) kernels: Arc<KernelCache>,
    /// The visibilities of all attentions that share the kernels, and the one of this attention.
    pub(super) visibilities: Arc<VisibilityInterner>,
    pub(super) visibility: Visibility,
}

/// A variant bound to the lengths of a batch, and the layers of its plan.
pub(super) struct BatchBinding {
    pub(super) variant: Variant,
    /// Layers whose visibility differs from that of the attention and of each other.
    pub(super) layers: Vec<Arc<BoundAttention>>,
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
        heads.check()?;
        options.head_dim_vo.check(heads)?;
        let variant = variant.bind(&options.head_dim_vo.dims(heads, heads.dims()))?.with_stored(options.stored);
        let branches = variant.branches();
        let hooks = HookClass::of(&variant);
        let (major, minor) = device.capability();
        let (kind, arch) = (options.kernel.unwrap_or(KernelKind::Prefill), Arch::for_device(major, minor));
        let request = KernelTraitsRequest {
            head_dim_vo: options.head_dim_vo,
            group: heads.group(),
            prefill: options.prefill,
            decode: options.decode,
            row_invariant: options.fixed_split_size.is_some(),
            ..KernelTraitsRequest::new(kind, heads.head_dim, dtypes, arch).with_hooks(&branches)
        };
        let request = request.with_decode_backend(hooks);
        let visibilities = Arc::new(VisibilityInterner::default());
        let args = upload_args(device, &branches)?;
        let selector = KernelSelector::new(&request, hooks, heads, device.multiprocessors())?
            .with_forced(options.kernel)
            .with_fixed_split(options.fixed_split_size.is_some())
            .with_list_queries(variant.kv_list_sizes().map(|(_, queries)| u64::try_from(queries).unwrap_or(1).max(1)));
        let bound = BoundAttention {
            args,
            visibility: visibilities.of(&variant),
            visibilities,
            branches,
            device: device.clone(),
            depends_on_lengths: names_lengths(&variant),
            // a mixed launch does not run unions
            selector: if variant.has_union() { selector.without_mixed() } else { selector },
            hooks,
            variant,
            heads,
            head_dim_vo: options.head_dim_vo,
            dtypes,
            sm_scale: heads.sm_scale(options.sm_scale)?,
            kernel: options.kernel,
            prefill: options.prefill,
            decode: request.decode,
            fixed_split_size: options.fixed_split_size,
            kernels: Arc::default(),
        };
        if options.kernel == Some(KernelKind::Mixed) && options.fixed_split_size.is_some() {
            return Err(PlanError::NotMixed { what: "a batch-invariant attention" }.into());
        }
        Ok(bound)
    }

    /// The same attention with the parameters of `variant`, which has the same structure. It shares the kernels.
    pub(super) fn with_parameters(&self, variant: &Variant) -> Result<Self, CudaError> {
        let variant =
            variant.bind(&self.head_dim_vo.dims(self.heads, self.heads.dims()))?.with_stored(self.variant.stored());
        self.variant.check_structure(&variant).map_err(LayerError::from)?;
        let branches = variant.branches();
        let (args, visibility) = (upload_args(&self.device, &branches)?, self.visibilities.of(&variant));
        Ok(BoundAttention { args, visibility, branches, variant, ..self.clone() })
    }

    /// Elements of a value, and of an output.
    pub(super) fn value_dim(&self) -> u32 {
        self.head_dim_vo.dim(self.heads)
    }

    /// The variant, bound to the lengths of a batch.
    pub(super) fn variant_for(&self, layout: &Layout) -> Result<Variant, CudaError> {
        Ok(self.variant.bind(&self.head_dim_vo.dims(self.heads, layout.dims(self.heads)))?)
    }

    /// Binds the variant to the lengths of a batch, and checks the layers of its plan.
    pub(super) fn bind_batch<'a>(
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
    pub(super) fn args_for(&self, variant: &Variant) -> Result<Vec<Arc<Args>>, CudaError> {
        let of_branch = |(branch, known): (Variant, &Arc<Args>)| {
            if known.are_of(&branch) { Ok(known.clone()) } else { Ok(Arc::new(Args::upload(&self.device, &branch)?)) }
        };
        variant.branches().into_iter().zip(&self.args).map(of_branch).collect()
    }

    /// Whether two attentions differ in parameters alone.
    pub(super) fn shares_kernels(&self, other: &BoundAttention) -> bool {
        Arc::ptr_eq(&self.kernels, &other.kernels)
    }

    /// Refuses a layer whose parameter tensors depend on the batch. [`CudaPlan::run`](super::CudaPlan::run) of a layer
    /// passes the tensors that were uploaded when the layer was made.
    pub(super) fn check_own_args(&self, layout: &Layout) -> Result<(), CudaError> {
        if !self.depends_on_lengths {
            return Ok(());
        }
        let bound = self.variant_for(layout)?;
        let same = bound.branches().iter().zip(&self.args).all(|(branch, args)| args.are_of(branch));
        if same { Ok(()) } else { Err(LayerError::Lengths.into()) }
    }

    /// The arguments of the first branch, and the variant of this branch.
    pub(super) fn first_branch(&self) -> (&Args, &Variant) {
        (&self.args[0], &self.branches[0]) // there is at least one branch
    }

    /// Whether each plan has tensors of its own, because defaults depend on the lengths of a batch.
    pub(super) fn has_defaults_over_lengths(&self) -> bool {
        has_defaults_over_lengths(&self.variant)
    }
}

/// The arguments of each branch, with their tensors on the device.
fn upload_args(device: &Device, branches: &[Variant]) -> Result<Vec<Arc<Args>>, CudaError> {
    branches.iter().map(|branch| Ok(Arc::new(Args::upload(device, branch)?))).collect()
}
