//! Layers of a model that share kernels and a plan: attentions that differ in parameters alone.

use std::sync::Arc;

use attn_core::expr::Variant;

use super::bound::BoundAttention;
use crate::cuda::{CudaAttention, CudaError};

impl CudaAttention {
    /// The same attention with the parameters of `variant`, which has the same structure. It shares the kernels and
    /// runs plans of this attention ([`CudaPlan::run`]). The factor of `q . k` and the transforms of stored keys
    /// stay.
    ///
    /// # Errors
    ///
    /// [`LayerError::Structure`] where more than values differs; a parameter that does not fit the heads; no memory for
    /// tensors.
    ///
    /// [`CudaPlan::run`]: crate::cuda::CudaPlan::run
    /// [`LayerError::Structure`]: attn_core::expr::LayerError::Structure
    pub fn with_parameters(&self, variant: &Variant) -> Result<Self, CudaError> {
        Ok(CudaAttention { bound: Arc::new(self.bound.with_parameters(variant)?) })
    }

    /// The same attention with another factor of `q . k`. It shares the kernels and runs plans of this attention.
    ///
    /// # Errors
    ///
    /// A factor that is not positive and finite.
    pub fn with_sm_scale(&self, sm_scale: f32) -> Result<Self, CudaError> {
        let mut bound = BoundAttention::clone(&self.bound);
        bound.problem.sm_scale = bound.heads.sm_scale(Some(sm_scale))?;
        Ok(CudaAttention { bound: Arc::new(bound) })
    }

    /// Copies what runs stored for this attention (`OutTensor`) into the handles of its variant. Waits for all work of
    /// the device.
    ///
    /// # Errors
    ///
    /// A failure of the driver.
    pub fn read_outputs(&self) -> Result<(), CudaError> {
        self.bound.args.iter().try_for_each(|args| args.fetch())
    }
}
