//! Whether parameters of a variant depend on the lengths of a batch.

use attn_core::expr::Variant;

/// Whether a parameter that is not set defaults to a tensor whose shape depends on the lengths of a batch.
#[cfg(feature = "cuda")]
pub(crate) fn has_defaults_over_lengths(variant: &Variant) -> bool {
    let mut fields = variant.parts().flat_map(|part| part.desc().fields);
    fields.any(|field| field.default.is_some() && mentions_lengths(field.shape))
}

/// Whether a shape or a requirement of a parameter names a length of the batch.
pub(super) fn names_lengths(variant: &Variant) -> bool {
    let mut fields = variant.parts().flat_map(|part| part.desc().fields);
    fields.any(|field| mentions_lengths(field.shape) || mentions_lengths(field.require.unwrap_or_default()))
}

fn mentions_lengths(text: &str) -> bool {
    let mut words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.any(|word| ["batch", "qo_tokens", "kv_tokens"].contains(&word))
}

#[cfg(test)]
mod tests {
    use attn_core::lang::Tensor1;
    use attn_variants::{Causal, Documents, Sink, SoftCap};

    use super::*;

    #[test]
    fn variants_that_name_lengths_are_recognised() {
        let documents = Documents { of_query: Tensor1::unset(), of_key: Tensor1::unset() };
        assert!(names_lengths(&Variant::from(documents)));
        let others = [Causal.into(), SoftCap { cap: 30.0 }.into(), Sink { logits: Tensor1::unset() }.into()];
        assert!(others.iter().all(|variant| !names_lengths(variant)), "{others:?}");
    }
}
