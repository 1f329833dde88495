//! Variants that kernels do not support.

use attn_core::expr::Variant;
use attn_core::lang::{Hook, Normalizer};
use attn_core::spec::KernelKind;

use super::NoTemplate;
use crate::kernel_traits::KernelTraits;

/// A variant that cannot be spliced into a kernel.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // of fields, which the messages name
pub enum SpliceError {
    /// A sink under a normaliser without a row max.
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
    Variant(#[from] super::VariantError),
    /// A mistake in the templates.
    #[error(transparent)]
    Template(#[from] NoTemplate),
}

/// Checks that the kernel supports the variant.
pub(super) fn check(variant: &Variant, traits: &KernelTraits) -> Result<(), SpliceError> {
    if traits.kind == KernelKind::Mixed && variant.has_kv_list() {
        return Err(SpliceError::MixedLists { variant: variant.to_string() });
    }
    if matches!(variant.normalizer(), Normalizer::Plain { .. }) && variant.has(Hook::SinkLogit) {
        return Err(SpliceError::PlainSink { variant: variant.to_string() });
    }
    Ok(())
}
