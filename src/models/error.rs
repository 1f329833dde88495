//! Errors of a model's configuration.

use crate::lang::{ComposeError, ParamError};

/// An error of a model's configuration.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // of fields, which the messages name
pub enum ModelError {
    /// Invalid JSON.
    #[error("the configuration is no JSON: {0}")]
    Json(String),
    /// An unknown model.
    #[error(
        "no model `{model_type}`; there are: {}. Compose its variant with `compose!` or `Variant::parse`",
        .known.join(", ")
    )]
    Unknown {
        /// The requested `model_type`.
        model_type: String,
        known: Vec<&'static str>,
    },
    /// A missing field.
    #[error("the configuration has no `{field}`")]
    Missing { field: &'static str },
    /// A field of the wrong type.
    #[error("`{field}` is {expected}; got `{got}`")]
    Type { field: String, expected: &'static str, got: String },
    /// A setting that no variant supports.
    #[error("`{field}` is `{got}`, for which there is no variant; there is one for: {known}")]
    Unsupported { field: String, got: String, known: &'static str },
    /// A value that the variant of a layer refuses.
    #[error("`{part}`, which the configuration asks for, refuses a value of it: {source}")]
    Param { part: &'static str, source: ParamError },
    /// Parts that do not compose.
    #[error(transparent)]
    Compose(#[from] ComposeError),
}

/// A value in a message: its beginning, if it is long.
pub(super) fn shown(value: &serde_json::Value) -> String {
    const MOST: usize = 80;
    let text = value.to_string();
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}..", &text[..end]),
        None => text,
    }
}
