//! What splicing refuses because composition cannot know it: it depends on the kernel, or on a variant that was not
//! bound.

use attn_core::expr::Variant;
use attn_core::lang::{Hook, Normalizer};
use attn_core::spec::KernelKind;

use super::SpliceError;
use crate::kernel_traits::KernelTraits;

/// Refuses a variant that the kernel does not support.
pub(super) fn refuse_unsupported(variant: &Variant, traits: &KernelTraits) -> Result<(), SpliceError> {
    if traits.kind() == KernelKind::Mixed && variant.has_kv_list() {
        return Err(SpliceError::MixedLists { variant: variant.to_string() });
    }
    if matches!(variant.normalizer(), Normalizer::Plain { .. }) && variant.has(Hook::SinkLogit) {
        return Err(SpliceError::PlainSink { variant: variant.to_string() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use attn_core::dtype::Dtypes;
    use attn_core::expr::Variant;
    use attn_core::lang::{AttentionVariant, Dims, LogitIndex, Normalizer, RowIndex, Tensor1, Tensor2};
    use attn_core::{VariantParams, attention_variant, spec::KernelKind};

    use crate::compile::Arch;
    use crate::kernel_traits::{KernelTraits, KernelTraitsRequest};
    use crate::splice::{KernelSource, SpliceError};

    const HIDDEN: Normalizer = Normalizer::Plain { divide: true };

    #[derive(Clone, VariantParams)]
    struct HiddenPlainSink;

    #[attention_variant(name = "test_hidden_plain_sink")]
    impl AttentionVariant for HiddenPlainSink {
        const NORMALIZER: Normalizer = HIDDEN;
        fn weight(&self, logit: f32, _row_max: f32, _at: LogitIndex) -> f32 {
            logit
        }
        fn sink_logit(&self, _at: RowIndex) -> f32 {
            0.0
        }
    }

    fn build(variant: &Variant, kind: KernelKind) -> Result<KernelSource, SpliceError> {
        let request = KernelTraitsRequest::new(kind, 128, Dtypes::bf16(), Arch::for_device(9, 0));
        KernelSource::build(variant, &KernelTraits::choose(&request).expect("traits"))
    }

    #[test]
    fn key_lists_are_refused_in_the_mixed_kernel_alone() {
        let tokens = Tensor2::new(vec![0], [1, 1]).expect("one");
        let list = Variant::from(attn_variants::TokenList { max_tokens: 1, tokens, count: Tensor1::from([1]) });
        build(&list, KernelKind::Decode).expect("supported");
        assert!(matches!(build(&list, KernelKind::Mixed), Err(SpliceError::MixedLists { .. })));
    }

    #[test]
    fn a_sink_that_no_macro_saw_under_a_plain_normaliser_is_refused() {
        let variant = Variant::from(HiddenPlainSink);
        assert!(variant.bind(&Dims::default()).is_err());
        assert!(matches!(build(&variant, KernelKind::Decode), Err(SpliceError::PlainSink { .. })));
    }
}
