//! Configurations by `model_type`.

use serde_json::Value;

use super::{
    Layer, Model, ModelError, config::Config, gemma2, gemma3, gpt_oss, llama, llama4, mistral, qwen3, understood,
};
use crate::Heads;

/// Reads the layers of a model family.
type Read = fn(&Config<'_>) -> Result<Vec<Layer>, ModelError>;

/// The readers, by `model_type`.
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

/// The `model_type`s that [`from_config`] supports.
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

/// Reads a parsed `config.json`.
///
/// # Errors
/// As [`from_config`].
pub fn from_value(value: &Value) -> Result<Model, ModelError> {
    let model_type = Config::new(value).text("model_type")?.ok_or(ModelError::Missing { field: "model_type" })?;
    let Some((_, read)) = FAMILIES.iter().find(|(name, _)| *name == model_type) else {
        return Err(ModelError::Unknown { model_type: model_type.to_owned(), known: known() });
    };
    // multimodal models keep the text model in `text_config`
    let whole = Config::new(value);
    let config = whole.object("text_config")?.unwrap_or(whole);
    let layers = read(&config)?;
    understood::check(&config)?;
    for part in layers.iter().flat_map(|layer| layer.variant.parts()) {
        let refused = |source| ModelError::Param { part: part.desc().name, source };
        (part.desc().make)(part.desc(), &part.to_values()).map_err(refused)?;
    }
    let qo = config.heads()?;
    let kv = config.positive("num_key_value_heads")?.unwrap_or(qo);
    let heads = Heads { qo, kv, head_dim: config.head_dim()? };
    Ok(Model { model_type: model_type.to_owned(), heads, layers })
}
