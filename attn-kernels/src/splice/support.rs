//! What the templates cannot do yet is refused here.

use attn_core::{
    expr::Variant,
    lang::{Hook, Normalizer},
    spec::KernelKind,
};

use super::NoTemplate;

/// A variant that cannot be spliced into a kernel.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpliceError {
    /// A hook that the kernel does not run.
    #[error("`{variant}` has {}, which the {kernel} kernel does not support yet; {WAY_OUT}", .hook.method())]
    Hook {
        /// The part.
        variant: String,
        /// Its hook.
        hook: Hook,
        /// The kernel.
        kernel: KernelKind,
    },
    /// A normaliser that the kernel does not run.
    #[error("`{variant}` has `Normalizer::MaxScaled`, which the {kernel} kernel does not support yet; {WAY_OUT}")]
    Normalizer {
        /// The part.
        variant: String,
        /// The kernel.
        kernel: KernelKind,
    },
    /// A sink under a normaliser without a running maximum.
    #[error("`{variant}` has `Normalizer::Plain` and a sink, for which there is no meaning; take one of them out")]
    PlainSink {
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

const WAY_OUT: &str = "take the part out, or fold the rewrite into the tensors before the call";

/// Checks that a kernel family runs every hook of a variant.
pub(super) fn check(variant: &Variant, kernel: KernelKind) -> Result<(), SpliceError> {
    for part in variant.parts() {
        let desc = part.desc();
        for hook in [Hook::ValueTransform, Hook::Denominator] {
            if desc.has(hook) {
                return Err(SpliceError::Hook { variant: desc.name.to_owned(), hook, kernel });
            }
        }
        if desc.normalizer == Normalizer::MaxScaled {
            return Err(SpliceError::Normalizer { variant: desc.name.to_owned(), kernel });
        }
    }
    if matches!(variant.normalizer(), Normalizer::Plain { .. }) && variant.has(Hook::SinkLogit) {
        return Err(SpliceError::PlainSink { variant: variant.to_string() });
    }
    Ok(())
}
