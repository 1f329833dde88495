//! Compositions that have no text.

use super::declared::Declared;
use crate::splice::NoTemplate;

/// A composition that has no text as a CUDA struct.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // of fields, which the messages name
pub enum VariantError {
    /// Two constants, helpers or types of one name, from different places.
    #[error("`{variant}` uses two different constants, helpers or types called `{name}`; rename one of them")]
    Clash { variant: String, name: String },
    /// A helper that calls itself through other helpers.
    #[error(
        "the helper `{name}` of `{variant}` calls itself through others, which a GPU cannot do; use a bounded `for`"
    )]
    Recursion { variant: String, name: String },
    /// A branch of `per_head` that stores to a tensor.
    #[error(
        "`{branch}` stores to a tensor from `output_transform` inside `per_head`, which a kernel cannot do for some \
        heads alone; store from another hook, or use `Engine::cpu()`"
    )]
    HeadStores { branch: String },
    /// A header that the text needs does not exist.
    #[error(transparent)]
    Template(#[from] NoTemplate),
}

impl VariantError {
    /// The clash of two definitions called `name` in a part.
    pub(super) fn clash(part: &Declared, name: &str) -> Self {
        VariantError::Clash { variant: part.name.to_owned(), name: name.to_owned() }
    }
}
