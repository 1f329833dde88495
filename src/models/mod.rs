//! The attention of known models, layer by layer, from the `config.json` that Hugging Face's transformers keep beside the weights.
//!
//! ```
//! let config = r#"{
//!     "model_type": "gemma2", "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 4,
//!     "head_dim": 256, "query_pre_attn_scalar": 256, "sliding_window": 4096, "attn_logit_softcapping": 50.0
//! }"#;
//! let model = attn::models::from_config(config)?;
//! assert_eq!(model.layers[0].variant.to_string(),
//!     "causal + sliding_window(window=4096) + rope(theta=10000, scale=1, interleaved=false, rotary_dim=0) + soft_cap(cap=50)");
//! assert_eq!(model.layers[0].sm_scale, Some(1.0 / 16.0));
//! # Ok::<(), attn::models::ModelError>(())
//! ```
//!
//! Queries and keys are those that the projections give: what a model does to them afterwards (norms, rotary embedding,
//! temperature) is in the variant, so the cache holds raw keys. Tensors of a layer are set by name where its weights are
//! loaded: `logits` of `sink` (gpt-oss), `q_weight` and `k_weight` of `qk_norm` (Qwen3, Gemma 3).

mod config;
mod error;
mod gemma2;
mod gemma3;
mod gpt_oss;
mod llama;
mod llama4;
mod mistral;
mod qwen3;
mod rope;
#[cfg(test)]
mod tests;

use serde_json::Value;

use crate::{Heads, Variant};
use config::Config;
pub use error::ModelError;

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
    /// What it computes.
    pub variant: Variant,
    /// The factor of its logits, where it is not `1 / sqrt(head_dim)`.
    pub sm_scale: Option<f32>,
}

impl From<Variant> for Layer {
    fn from(variant: Variant) -> Self {
        Layer { variant, sm_scale: None }
    }
}

/// How the layers of a family are read.
type Read = fn(&Config<'_>) -> Result<Vec<Layer>, ModelError>;

/// The families by `model_type`, and where their text model stands.
const FAMILIES: &[(&str, Read)] = &[
    ("gemma2", gemma2::layers),
    ("gemma3", gemma3::layers),
    ("gemma3_text", gemma3::layers),
    ("gpt_oss", gpt_oss::layers),
    ("llama", llama::layers),
    ("llama4", llama4::layers),
    ("llama4_text", llama4::layers),
    ("mistral", mistral::layers),
    ("qwen3", qwen3::layers),
];

/// The `model_type`s that [`from_config`] knows.
#[must_use]
pub fn known() -> Vec<&'static str> {
    FAMILIES.iter().map(|(name, _)| *name).collect()
}

/// Reads the text of a `config.json`.
///
/// # Errors
/// No JSON, an unknown `model_type`, a field that is missing or of another type, or a setting without a variant.
pub fn from_config(text: &str) -> Result<Model, ModelError> {
    from_value(&serde_json::from_str(text).map_err(|error| ModelError::Json(error.to_string()))?)
}

/// Reads a `config.json` that is parsed already.
///
/// # Errors
/// As [`from_config`].
pub fn from_value(value: &Value) -> Result<Model, ModelError> {
    let model_type = Config::new(value).text("model_type")?.ok_or(ModelError::Missing { field: "model_type" })?;
    let Some((_, read)) = FAMILIES.iter().find(|(name, _)| *name == model_type) else {
        return Err(ModelError::unknown(model_type));
    };
    // a model that sees images keeps its text model inside
    let config = Config::new(value.get("text_config").filter(|inner| inner.is_object()).unwrap_or(value));
    let layers = read(&config)?;
    let qo = config.heads()?;
    let kv = config.positive("num_key_value_heads")?.unwrap_or(qo);
    let heads = Heads { qo, kv, head_dim: config.head_dim()? };
    Ok(Model { model_type: model_type.to_owned(), heads, layers })
}
