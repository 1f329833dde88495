//! Layers of a model that share kernels and a plan: attentions whose parameters differ, and nothing else.

use std::sync::Arc;

use attn_core::{
    batch::{Batch, Layout},
    expr::Variant,
    plan::LayerError,
    tensor::{Kv, Out, TensorRef},
};

use super::{
    Attention, CudaError, Plan, Stream, Workspace,
    args::Args,
    attention::{Inner, upload_args},
    plan::{Schedule, Sections},
    run::{Rows, check_lse},
};

impl Attention {
    /// The same attention with other parameters: of `variant`, which has the same parts in the same places. It shares the kernels, and runs plans of this one
    /// ([`Plan::run_as`]); the scale of logits and what keys are stored as stay.
    ///
    /// # Errors
    ///
    /// [`LayerError::Structure`] where more than values differs; a parameter that does not fit the heads; no memory for tensors.
    pub fn with_parameters(&self, variant: &Variant) -> Result<Self, CudaError> {
        let inner = &*self.inner;
        let dims = inner.values.dims(inner.heads, inner.heads.dims());
        let variant = variant.bind(&dims)?.over(inner.variant.stored());
        inner.variant.check_structure(&variant)?;
        let arms = variant.arms();
        let (args, sight) = (upload_args(&inner.device, &arms)?, inner.sights.of(&variant));
        let mut inner = inner.clone();
        (inner.args, inner.sight, inner.arms, inner.variant) = (args, sight, arms, variant);
        Ok(Attention { inner: Arc::new(inner) })
    }

    /// The same attention with another factor of `q . k`. It shares the kernels, and runs plans of this one.
    ///
    /// # Errors
    ///
    /// One that is not positive and finite.
    pub fn with_sm_scale(&self, sm_scale: f32) -> Result<Self, CudaError> {
        let mut inner = Inner::clone(&self.inner);
        inner.sm_scale = inner.heads.sm_scale(Some(sm_scale))?;
        Ok(Attention { inner: Arc::new(inner) })
    }

    /// As [`Attention::plan`], for several layers: the plan runs as any of `layers` too ([`Plan::run_as`]). Where these see other keys (another window),
    /// work is made for all that any of them sees, and each skips what its own mask hides.
    ///
    /// # Errors
    ///
    /// As [`Attention::plan`], and a [`LayerError`] for a layer that cannot share it.
    pub fn plan_for(
        &self,
        batch: &Batch<'_>,
        layers: &[&Attention],
        workspace: &mut Workspace,
    ) -> Result<Plan, CudaError> {
        self.plan_in(None, batch, layers, workspace)
    }

    /// Bytes of workspace that [`Attention::plan_for`] takes, exactly.
    ///
    /// # Errors
    ///
    /// As [`Attention::plan_for`].
    pub fn workspace_size_for(&self, batch: &Batch<'_>, layers: &[&Attention]) -> Result<usize, CudaError> {
        let layout = batch.validate()?;
        let (bound, layers) = (self.bound(&layout)?, self.layers(&layout, layers)?);
        let (layout, Schedule { kernels, work, .. }) = self.schedule_of(&bound, &layers, layout)?;
        Ok(Sections::of(self.heads(), self.value_dim(), &kernels, &work, &layout)?.bytes)
    }

    /// Copies what runs stored for this attention (`OutTensor`) into the handles of its variant, once everything given to the device has finished.
    ///
    /// # Errors
    ///
    /// A failure of the driver.
    pub fn read_outputs(&self) -> Result<(), CudaError> {
        self.inner.args.iter().try_for_each(|args| args.fetch())
    }

    fn shares_kernels(&self, other: &Attention) -> bool {
        Arc::ptr_eq(&self.inner.sights, &other.inner.sights)
    }

    /// Those of `layers` for which work has to be made: each sees other keys than this one and those before it.
    pub(super) fn layers(&self, layout: &Layout, layers: &[&Attention]) -> Result<Vec<Attention>, CudaError> {
        let mut others: Vec<Attention> = Vec::new();
        for layer in layers {
            if !self.shares_kernels(layer) {
                return Err(LayerError::Stranger.into());
            }
            layer.check_own_args(layout)?;
            let known = [self].into_iter().chain(&others).any(|other| other.inner.sight == layer.inner.sight);
            if !known {
                others.push((*layer).clone());
            }
        }
        Ok(others)
    }

    /// Refuses a variant that has other tensors for each batch: a run as a layer brings those that the layer was made with.
    pub(super) fn check_own_args(&self, layout: &Layout) -> Result<(), CudaError> {
        if !self.depends_on_lengths() {
            return Ok(());
        }
        let bound = self.bound(layout)?;
        let same = bound.arms().iter().zip(&self.inner.args).all(|(arm, args)| args.are_of(arm));
        if same { Ok(()) } else { Err(LayerError::Lengths.into()) }
    }
}

impl Plan {
    /// As [`Plan::run`], with the parameters and the scale of logits of another attention, made from the plan's by [`Attention::with_parameters`] or
    /// [`Attention::with_sm_scale`]: the same kernels and the same list. What is captured reads its tensors, which it keeps alive.
    ///
    /// # Errors
    ///
    /// As [`Plan::run`]; a [`LayerError`] for an attention of other kernels, or one that sees keys that the plan was not made for.
    pub fn run_as(
        &self,
        layer: &Attention,
        stream: &Stream,
        q: TensorRef<'_>,
        kv: Kv<'_>,
        out: Out<'_>,
    ) -> Result<(), CudaError> {
        self.check_layer(layer)?;
        self.give(Some(layer), stream, Rows::Finished, q, kv, out)
    }

    /// As [`Plan::run_as`], of rows that are left unfinished: see [`Plan::run_unfinished`].
    ///
    /// # Errors
    ///
    /// As of both.
    pub fn run_unfinished_as(
        &self,
        layer: &Attention,
        stream: &Stream,
        q: TensorRef<'_>,
        kv: Kv<'_>,
        out: Out<'_>,
    ) -> Result<(), CudaError> {
        self.check_layer(layer)?;
        check_lse(&out)?;
        self.give(Some(layer), stream, Rows::Unfinished, q, kv, out)
    }

    fn check_layer(&self, layer: &Attention) -> Result<(), CudaError> {
        if !self.attention.shares_kernels(layer) {
            return Err(LayerError::Stranger.into());
        }
        let sights = [&self.attention].into_iter().chain(&self.layers);
        if !sights.into_iter().any(|known| known.inner.sight == layer.inner.sight) {
            return Err(LayerError::NotPlanned.into());
        }
        layer.check_own_args(&self.layout)
    }

    /// The arguments of an arm: the plan's own, or those of a layer.
    pub(super) fn args_of<'a>(&'a self, arm: usize, layer: Option<&'a Attention>) -> &'a Args {
        match layer {
            Some(layer) => &layer.inner.args[arm], // one for each arm, as the structure is the same
            None => &self.arms[arm].args,
        }
    }
}
