//! What has no meaning in a kernel is refused here.

use attn_core::{
    expr::Variant,
    lang::{Hook, Normalizer},
    spec::KernelKind,
};

use super::NoTemplate;
use crate::cell::Cell;

/// A variant that cannot be spliced into a kernel.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpliceError {
    /// A sink under a normaliser without a running maximum.
    #[error("`{variant}` has `Normalizer::Plain` and a sink, for which there is no meaning; take one of them out")]
    PlainSink {
        /// The composition.
        variant: String,
    },
    /// Keys from lists in a kernel that runs other keys.
    #[error(
        "`{variant}` takes its keys from lists, which the mixed kernel does not; run it with the kernel `prefill` or `decode`"
    )]
    MixedLists {
        /// The composition.
        variant: String,
    },
    /// Parts whose text does not go together.
    #[error(transparent)]
    Variant(#[from] super::VariantError),
    /// A mistake in the templates.
    #[error(transparent)]
    Template(#[from] NoTemplate),
}

/// Checks that a variant has a meaning for kernels: they run every hook.
pub(super) fn check(variant: &Variant, cell: &Cell) -> Result<(), SpliceError> {
    if cell.kind == KernelKind::Mixed && variant.has_kv_list() {
        return Err(SpliceError::MixedLists { variant: variant.to_string() });
    }
    if matches!(variant.normalizer(), Normalizer::Plain { .. }) && variant.has(Hook::SinkLogit) {
        return Err(SpliceError::PlainSink { variant: variant.to_string() });
    }
    Ok(())
}
