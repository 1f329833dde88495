//! Two linked variants with one name: the first use of the registry reports both places.

#![cfg(feature = "inventory")]

extern crate attn_core as attn;

use attn::lang::{AttentionVariant, LogitIndex};
use attn::{ExprError, Registry, RegistryError, Variant, VariantParams, attention_variant};

mod one {
    use super::*;
    #[derive(Clone, Copy, VariantParams)]
    pub(crate) struct Same;
    #[attention_variant(name = "same")]
    impl AttentionVariant for Same {
        fn logits_mask(&self, at: LogitIndex) -> bool {
            at.kv_pos > 1
        }
    }
}

mod two {
    use super::*;
    #[derive(Clone, Copy, VariantParams)]
    pub(crate) struct Same;
    #[attention_variant(name = "same")]
    impl AttentionVariant for Same {
        fn logits_mask(&self, at: LogitIndex) -> bool {
            at.kv_pos > 2
        }
    }
}

#[test]
fn the_first_use_reports_the_duplicate() {
    let error = Registry::global().map(|_| ()).expect_err("two of one name");
    let RegistryError::Duplicate { name, first, second } = &error else { panic!("{error}") };
    assert_eq!(name, "same");
    assert!(first.contains("duplicates.rs:") && second.contains("duplicates.rs:") && first != second, "{error}");
    assert_eq!(Variant::parse("full").map(|_| ()), Err(ExprError::Registry(error)));
    // the types are still usable without names
    assert_eq!(attn::compose!(one::Same, two::Same).parts().len(), 2);
}
