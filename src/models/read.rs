//! From a `config.json` to a model: its `model_type` chooses the family that reads the other fields.

use serde_json::Value;

use super::text::{Class, Text};
use super::{Layer, Model, ModelError, config::Config, understood};
use super::{gemma2, gemma3, gpt_oss, llama, llama4, mistral, qwen3};

/// A model type.
struct Family {
    model_type: &'static str,
    /// The type of the text model that a multimodal one has in `text_config`.
    text: Option<&'static str>,
    class: &'static Class,
    layers: fn(&Text<'_>) -> Result<Vec<Layer>, ModelError>,
}

static FAMILIES: [Family; 9] = [
    Family { model_type: "gemma2", text: None, class: &gemma2::CLASS, layers: gemma2::layers },
    Family {
        model_type: "gemma3",
        text: Some("gemma3_text"),
        class: &gemma3::CLASS,
        layers: gemma3::multimodal_layers,
    },
    Family { model_type: "gemma3_text", text: None, class: &gemma3::CLASS, layers: gemma3::layers },
    Family { model_type: "gpt_oss", text: None, class: &gpt_oss::CLASS, layers: gpt_oss::layers },
    Family { model_type: "llama", text: None, class: &llama::CLASS, layers: llama::layers },
    Family { model_type: "llama4", text: Some("llama4_text"), class: &llama4::CLASS, layers: llama4::layers },
    Family { model_type: "llama4_text", text: None, class: &llama4::CLASS, layers: llama4::layers },
    Family { model_type: "mistral", text: None, class: &mistral::CLASS, layers: mistral::layers },
    Family { model_type: "qwen3", text: None, class: &qwen3::CLASS, layers: qwen3::layers },
];

/// The `model_type`s that [`from_config`] supports.
#[must_use]
pub fn known() -> Vec<&'static str> {
    FAMILIES.iter().map(|family| family.model_type).collect()
}

/// Reads the text of a `config.json`.
///
/// # Errors
/// No JSON, an unknown `model_type`, a field of another type or `null` where the model's class takes none, a field of a
/// rotary embedding that is missing, or a setting without a variant.
pub fn from_config(text: &str) -> Result<Model, ModelError> {
    from_value(&serde_json::from_str(text).map_err(|error| ModelError::Json(error.to_string()))?)
}

/// Reads a parsed `config.json`.
///
/// # Errors
/// The errors of [`from_config`].
pub fn from_value(value: &Value) -> Result<Model, ModelError> {
    let whole = Config::new(value);
    let model_type = whole.text("model_type")?.ok_or(ModelError::Missing { field: "model_type" })?;
    let Some(family) = FAMILIES.iter().find(|family| family.model_type == model_type) else {
        return Err(ModelError::Unknown { model_type: model_type.to_owned(), known: known() });
    };
    let Some(inner) = family.text else { return read(family, &whole) };
    match whole.object("text_config")? {
        Some(text) => {
            match text.text("model_type")? {
                Some(got) if got != inner => {
                    let (field, got) = ("text_config.model_type".to_owned(), got.to_owned());
                    return Err(ModelError::Unsupported { field, got, known: inner });
                }
                _ => {}
            }
            let model = read(family, &text)?;
            understood::check(&whole)?;
            Ok(model)
        }
        None => {
            let defaults = Value::Object(serde_json::Map::new());
            let defaults = Config::new(&defaults);
            let model = read(family, &defaults)?;
            understood::check_beside(&whole, &defaults)?;
            Ok(model)
        }
    }
}

fn read(family: &Family, config: &Config<'_>) -> Result<Model, ModelError> {
    let text = Text::read(config, family.class)?;
    let layers = (family.layers)(&text)?;
    understood::check(config)?;
    for part in layers.iter().flat_map(|layer| layer.variant.parts()) {
        let refused = |source| ModelError::Param { part: part.desc().name, source };
        (part.desc().make)(part.desc(), &part.to_values()).map_err(refused)?;
    }
    Ok(Model { model_type: family.model_type.to_owned(), heads: text.heads, layers })
}
