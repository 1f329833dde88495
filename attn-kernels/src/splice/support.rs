//! What has no meaning in a kernel is refused here.

use attn_core::{
    expr::Variant,
    lang::{FieldDesc, FieldType, Hook, Normalizer},
};

use super::NoTemplate;

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
    /// A union that stores: each arm has a copy of the tensor.
    #[error(
        "`{variant}` has a union and stores into a tensor, which no kernel supports; take one of them out, or use `Engine::cpu()`"
    )]
    UnionStores {
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

/// Checks that a variant, before it is taken apart into arms, can be run.
pub(crate) fn check_whole(variant: &Variant) -> Result<(), SpliceError> {
    let is_out = |field: &FieldDesc| matches!(field.ty, FieldType::Out { .. });
    if variant.has_union() && variant.parts().any(|part| part.desc().fields.iter().any(is_out)) {
        return Err(SpliceError::UnionStores { variant: variant.to_string() });
    }
    Ok(())
}

/// Checks that a variant has a meaning for kernels: they run every hook.
pub(super) fn check(variant: &Variant) -> Result<(), SpliceError> {
    if matches!(variant.normalizer(), Normalizer::Plain { .. }) && variant.has(Hook::SinkLogit) {
        return Err(SpliceError::PlainSink { variant: variant.to_string() });
    }
    Ok(())
}
