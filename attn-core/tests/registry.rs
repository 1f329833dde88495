//! The registry: three ways to register, unique names.

extern crate attn_core as attn;

#[path = "common/variants.rs"]
mod common;

use attn::lang::{AttentionVariant, Described, LogitIndex};
use attn::{Registry, RegistryError, Variant, VariantParams, attention_variant, registry};

mod other {
    use super::*;

    /// Has the name of another variant. No other crate that has that variant links this one, so `inventory` must not
    /// see both.
    #[derive(Clone, Copy, VariantParams)]
    pub(crate) struct SoftCap;

    #[attention_variant(name = "squash")]
    impl AttentionVariant for SoftCap {
        fn logits_transform(&self, logit: f32, _at: LogitIndex) -> f32 {
            logit / (1.0 + logit.abs())
        }
    }
}

/// A copy of a descriptor with another name.
fn renamed(of: &attn::lang::VariantDesc, name: &'static str) -> &'static attn::lang::VariantDesc {
    Box::leak(Box::new(attn::lang::VariantDesc { name, file: "elsewhere.rs", line: 7, ..*of }))
}

#[test]
fn names_are_sorted_and_found() {
    let registry = common::registry();
    assert_eq!(registry.names(), ["causal", "even", "everything", "relu", "sink", "soft_cap"]);
    assert_eq!(registry.iter().len(), 6);
    assert!(registry.get("even").is_some_and(|d| std::ptr::eq(d, common::Even::desc())));
    assert!(registry.get("odd").is_none());
    assert_eq!(Registry::empty().iter().len(), 0);
}

#[test]
fn a_name_belongs_to_one_variant() {
    let mut registry = common::registry();
    registry.register(common::Causal::desc()).expect("the same again changes nothing");
    let thief = renamed(other::SoftCap::desc(), "soft_cap");
    let error = registry.register(thief).expect_err("the name is taken");
    let RegistryError::Duplicate { name, first, second } = &error else { panic!("{error}") };
    assert_eq!((name.as_str(), second.as_str()), ("soft_cap", "elsewhere.rs:7"));
    assert!(first.contains("common"), "{first}");
    // a table is added whole or not at all
    let error = registry.register_all(&[other::SoftCap::desc(), thief]);
    assert!(matches!(error, Err(RegistryError::Duplicate { .. })));
    assert!(registry.get("squash").is_none());
}

#[test]
fn a_name_must_fit_the_grammar() {
    for name in ["", "soft cap", "9lives", "true", "größe", "a-b"] {
        let error = Registry::empty().register(renamed(common::Even::desc(), name));
        assert!(matches!(error, Err(RegistryError::Name { .. })), "{name}");
    }
}

#[test]
fn the_global_registry_takes_tables() {
    registry::register(attn::variants![common::Causal, common::SoftCap, common::Everything]).expect("names differ");
    registry::register(attn::variants![common::Causal]).expect("the same again changes nothing");
    let global = Registry::global().expect("no duplicates are linked");
    assert!(global.get("everything").is_some());
    let variant = Variant::parse("causal + soft_cap(cap=30)").expect("both are there");
    assert_eq!(variant, attn::compose!(common::Causal, common::SoftCap { cap: 30.0 }));
    let thief: &[_] = &[renamed(other::SoftCap::desc(), "everything")];
    assert!(registry::register(thief).is_err());
    assert!(Registry::global().is_ok(), "a refused table leaves the registry as it was");
}

#[cfg(feature = "inventory")]
#[test]
fn linked_variants_are_registered_by_inventory() {
    assert!(Registry::global().expect("no duplicates are linked").get("squash").is_some());
}

#[cfg(not(feature = "inventory"))]
#[test]
fn without_inventory_only_tables_register() {
    assert!(Registry::global().expect("no duplicates are linked").get("squash").is_none());
}
