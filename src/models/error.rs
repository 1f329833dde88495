//! What can be wrong with a model's configuration.

use crate::lang::ComposeError;

/// What can be wrong with a model's configuration.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// No JSON.
    #[error("the configuration is no JSON: {0}")]
    Json(String),
    /// A model that is not known.
    #[error("no model `{model_type}`; there are: {}. Compose its variant with `compose!` or `Variant::parse`", .known.join(", "))]
    Unknown {
        /// What was asked.
        model_type: String,
        /// What there is.
        known: Vec<&'static str>,
    },
    /// A field that has to be there.
    #[error("the configuration has no `{field}`")]
    Missing {
        /// The field.
        field: &'static str,
    },
    /// A field of another type.
    #[error("`{field}` is {expected}; got `{got}`")]
    Type {
        /// The field.
        field: String,
        /// Its type.
        expected: &'static str,
        /// What was given.
        got: String,
    },
    /// A setting without a variant.
    #[error("`{field}` is `{got}`, for which there is no variant; there is one for: {known}")]
    Unsupported {
        /// The field.
        field: String,
        /// What was given.
        got: String,
        /// What there is.
        known: &'static str,
    },
    /// Parts that do not go together.
    #[error(transparent)]
    Compose(#[from] ComposeError),
}

impl ModelError {
    pub(super) fn unknown(model_type: &str) -> Self {
        ModelError::Unknown { model_type: model_type.to_owned(), known: super::known() }
    }
}
