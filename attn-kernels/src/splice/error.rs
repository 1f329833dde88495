//! Variants that have no translation unit.

use super::{NoTemplate, VariantError};

/// A variant that cannot be spliced into a kernel.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // of fields, which the messages name
pub enum SpliceError {
    /// A sink under a normaliser without a row max. Composition refuses it, and binding does; a part alone that was not
    /// bound gets here, if its macro could not read the normaliser, which a constant of the user names.
    #[error("`{variant}` has `Normalizer::Plain` and a sink, for which there is no meaning; take one of them out")]
    PlainSink { variant: String },
    /// A KV list in the mixed kernel.
    #[error(
        "`{variant}` takes its keys from lists, which the mixed kernel does not; run it with the kernel `prefill` or \
        `decode`"
    )]
    MixedLists { variant: String },
    /// Parts whose text conflicts.
    #[error(transparent)]
    Variant(#[from] VariantError),
    /// A mistake in the templates.
    #[error(transparent)]
    Template(#[from] NoTemplate),
}
