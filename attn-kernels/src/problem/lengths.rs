//! Whether parameters of a variant depend on the lengths of a batch.

use attn_core::expr::Variant;
use attn_core::lang::{Dims, FieldDesc};

/// Whether a parameter that is not set defaults to a tensor whose shape depends on the lengths of a batch.
#[cfg(feature = "cuda")]
pub(crate) fn has_defaults_over_lengths(variant: &Variant) -> bool {
    fields(variant).any(FieldDesc::has_default_over_batch)
}

/// Whether a shape or a requirement of a parameter names a length of the batch.
pub(super) fn names_lengths(variant: &Variant) -> bool {
    fields(variant).any(|field| field.shape_names(&Dims::OF_BATCH) || field.require_names(&Dims::OF_BATCH))
}

/// Why the host must see each batch: a tensor that fits the largest batch of a capacity may not fit a smaller one, or a
/// condition may not hold.
pub(super) fn checked_by_batch(variant: &Variant) -> Option<&'static str> {
    if fields(variant).any(|field| field.require_names(&Dims::OF_BATCH)) {
        return Some("a variant with a condition over the lengths of a batch");
    }
    if fields(variant).any(|field| field.exact_axis_names(&Dims::OF_BATCH)) {
        return Some("a variant with a tensor whose shape does not grow with the lengths of a batch");
    }
    fields(variant)
        .any(FieldDesc::has_default_over_batch)
        .then_some("a variant with a default over the lengths of a batch")
}

fn fields(variant: &Variant) -> impl Iterator<Item = &'static FieldDesc> {
    variant.parts().flat_map(|part| part.desc().fields)
}

#[cfg(test)]
mod tests {
    use attn_core::lang::Tensor1;
    use attn_variants::{Causal, Documents, Sink, SoftCap};

    use super::*;

    #[test]
    fn variants_that_name_lengths_are_recognised() {
        let documents = Variant::from(Documents { of_query: Tensor1::unset(), of_key: Tensor1::unset() });
        assert!(names_lengths(&documents));
        assert_eq!(checked_by_batch(&documents), None, "a capacity bounds its shapes");
        let others = [Causal.into(), SoftCap { cap: 30.0 }.into(), Sink { logits: Tensor1::unset() }.into()];
        assert!(others.iter().all(|variant| !names_lengths(variant)), "{others:?}");
    }
}
