//! A model as a list of layers.

use crate::{Heads, Variant};

/// The attention of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// `model_type` of the configuration.
    pub model_type: String,
    /// Heads, the same in every layer.
    pub heads: Heads,
    /// The layers in order.
    pub layers: Vec<Layer>,
}

/// The attention of one layer.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    /// The variant.
    pub variant: Variant,
    /// The scale of logits, if it is not `1 / sqrt(head_dim)`.
    pub sm_scale: Option<f32>,
}

impl From<Variant> for Layer {
    fn from(variant: Variant) -> Self {
        Layer { variant, sm_scale: None }
    }
}
