//! A variant bound on the CPU.

use std::sync::{Arc, Mutex, PoisonError};

use attn_core::batch::Layout;
use attn_core::expr::{LayerError, TensorSlot, Visibility, VisibilityInterner};

use attn_kernels::support::bind_on_cpu;

use crate::{AttentionOptions, Dtypes, Error, HeadDimVo, Heads, Variant};

/// A bound variant on the CPU.
#[derive(Clone, Debug)]
pub(crate) struct CpuAttention {
    pub(crate) variant: Variant,
    pub(crate) heads: Heads,
    pub(crate) dtypes: Dtypes,
    pub(crate) head_dim_vo: HeadDimVo,
    pub(crate) sm_scale: f32,
    pub(crate) fixed_split_size: Option<u32>,
    /// Which keys the variant sees. Attentions that differ in parameters alone share the interner.
    visibility: Visibility,
    visibilities: Arc<VisibilityInterner>,
    /// The variant with replaced parameter tensors; `None` if none was replaced. Shared by all clones and their plans.
    replaced: Arc<Mutex<Option<Variant>>>,
}

impl CpuAttention {
    /// Checks and binds a variant.
    pub(super) fn new(
        variant: &Variant,
        heads: Heads,
        dtypes: Dtypes,
        options: AttentionOptions,
    ) -> Result<Self, Error> {
        let AttentionOptions { head_dim_vo, fixed_split_size, .. } = options;
        let (variant, dtypes, sm_scale) = bind_on_cpu(variant, heads, dtypes, options)?;
        let visibilities = Arc::new(VisibilityInterner::default());
        let visibility = visibilities.of(&variant);
        let replaced = Arc::default();
        Ok(CpuAttention {
            variant,
            heads,
            dtypes,
            head_dim_vo,
            sm_scale,
            fixed_split_size,
            visibility,
            visibilities,
            replaced,
        })
    }

    /// The same attention with the parameters of `variant`, which has the same structure.
    pub(super) fn with_parameters(&self, variant: &Variant) -> Result<Self, Error> {
        let dims = self.head_dim_vo.dims(self.heads, self.heads.dims());
        let variant = variant.clone().stored_as(&self.variant).bind(&dims)?;
        self.variant.check_structure(&variant).map_err(LayerError::from)?;
        let visibility = self.visibilities.of(&variant);
        Ok(CpuAttention { visibility, variant, replaced: Arc::default(), ..self.clone() })
    }

    /// The same attention with another scale of logits.
    pub(super) fn with_sm_scale(&self, sm_scale: f32) -> Result<Self, Error> {
        Ok(CpuAttention { sm_scale: self.heads.sm_scale(Some(sm_scale))?, ..self.clone() })
    }

    /// Changes the content of a parameter tensor.
    pub(super) fn replace(
        &self,
        name: &str,
        set: impl FnOnce(&mut Variant, &TensorSlot) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut replaced = self.replaced.lock().unwrap_or_else(PoisonError::into_inner);
        let mut variant = replaced.as_ref().unwrap_or(&self.variant).clone();
        set(&mut variant, &self.variant.tensor_slot(name)?)?;
        *replaced = Some(variant);
        Ok(())
    }

    /// The variant with replaced parameter tensors, bound to a batch; `None` if none was replaced.
    pub(crate) fn replaced(&self, layout: &Layout) -> Result<Option<Variant>, Error> {
        let replaced = self.replaced.lock().unwrap_or_else(PoisonError::into_inner).clone();
        replaced
            .map(|variant| Ok(variant.bind(&self.head_dim_vo.dims(self.heads, layout.dims(self.heads)))?))
            .transpose()
    }

    /// The layers whose visibility differs from that of this attention and of the layers before them.
    pub(crate) fn layers(&self, layers: &[&CpuAttention]) -> Result<Vec<CpuAttention>, LayerError> {
        let mut others: Vec<CpuAttention> = Vec::new();
        for layer in layers {
            if !self.shares_kernels(layer) {
                return Err(LayerError::Unrelated);
            }
            if ![self].into_iter().chain(&others).any(|other| other.visibility == layer.visibility) {
                others.push((*layer).clone());
            }
        }
        Ok(others)
    }

    /// Whether one attention was derived from the other. On a GPU both share kernels.
    fn shares_kernels(&self, other: &CpuAttention) -> bool {
        Arc::ptr_eq(&self.visibilities, &other.visibilities)
    }

    /// Refuses a layer that a plan for this attention and for `layers` cannot run.
    pub(crate) fn check_layer(&self, layers: &[CpuAttention], layer: &CpuAttention) -> Result<(), LayerError> {
        if !self.shares_kernels(layer) {
            return Err(LayerError::Unrelated);
        }
        let sees = [self].into_iter().chain(layers).any(|known| known.visibility == layer.visibility);
        if sees { Ok(()) } else { Err(LayerError::NotPlanned) }
    }
}
