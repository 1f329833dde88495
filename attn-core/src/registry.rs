//! The registry of variants by name.
//!
//! Variants are registered in three ways: by `inventory`, which finds every linked variant; by tables that
//! [`variants!`](crate::variants) makes, given to [`register`]; and by [`Registry::register`] on a registry of your
//! own. Static libraries lose `inventory` entries, so it is never the only way.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::lang::VariantDesc;

/// Variants by name, sorted.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    by_name: BTreeMap<&'static str, &'static VariantDesc>,
}

/// Why a variant cannot be registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// Two variants have the same name.
    #[error(
        "two variants are called `{name}`: at {first} and at {second}; rename one with `#[attention_variant(name = \
         \"..\")]`"
    )]
    Duplicate {
        /// The name.
        name: String,
        /// File and line of the variant registered first.
        first: String,
        /// File and line of the other variant.
        second: String,
    },
    /// An expression cannot write the name.
    #[error(
        "`{name}` at {location} cannot be a variant's name: use letters, digits and `_`, not a digit first, and no \
         word of the grammar (true, false, inf, nan, or, not, remap, per_head, union)"
    )]
    Name {
        /// The name.
        name: String,
        /// File and line of the variant.
        location: String,
    },
}

impl Registry {
    /// A registry without variants.
    #[must_use]
    pub fn empty() -> Self {
        Self::default()
    }

    /// The variants of the program so far: those found by `inventory`, and those given to [`register`].
    ///
    /// # Errors
    /// Two linked variants have the same name. It is found at the first use, and returned from then on.
    pub fn global() -> Result<Arc<Registry>, RegistryError> {
        let mut global = GLOBAL.lock().unwrap_or_else(PoisonError::into_inner);
        global.get_or_insert_with(linked).clone()
    }

    /// Adds a variant. Adding it again has no effect. One that was read from Rust text takes the place of an earlier
    /// text's variant of that name, so that a changed text can be read again.
    ///
    /// # Errors
    /// Another variant has the name, or an expression cannot write it.
    pub fn register(&mut self, desc: &'static VariantDesc) -> Result<(), RegistryError> {
        if !is_name(desc.name) {
            return Err(RegistryError::Name { name: desc.name.to_owned(), location: location(desc) });
        }
        match self.by_name.get(desc.name) {
            Some(&there) if !std::ptr::eq(there, desc) && (there.text.is_none() || desc.text.is_none()) => {
                Err(RegistryError::Duplicate {
                    name: desc.name.to_owned(),
                    first: location(there),
                    second: location(desc),
                })
            }
            _ => {
                self.by_name.insert(desc.name, desc);
                Ok(())
            }
        }
    }

    /// Adds the variants of a table, all or none.
    ///
    /// # Errors
    /// As [`Registry::register`].
    pub fn register_all(&mut self, table: &[&'static VariantDesc]) -> Result<(), RegistryError> {
        let mut all = self.clone();
        table.iter().try_for_each(|desc| all.register(desc))?;
        *self = all;
        Ok(())
    }

    /// The variants, sorted by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'static VariantDesc> {
        self.by_name.values().copied()
    }

    /// The variant of a name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&'static VariantDesc> {
        self.by_name.get(name).copied()
    }

    /// The names, sorted.
    #[must_use]
    pub fn names(&self) -> Vec<&'static str> {
        self.by_name.keys().copied().collect()
    }
}

/// Adds variants to the global registry, all or none. Use it where `inventory` is off or its entries were lost.
///
/// # Errors
/// As [`Registry::register`], and as [`Registry::global`].
pub fn register(table: &[&'static VariantDesc]) -> Result<(), RegistryError> {
    let mut global = GLOBAL.lock().unwrap_or_else(PoisonError::into_inner);
    let mut all = Registry::clone(&*global.get_or_insert_with(linked).clone()?);
    all.register_all(table)?;
    *global = Some(Ok(Arc::new(all)));
    Ok(())
}

/// `None` before the first use. Readers get a snapshot, so they do not hold the lock.
static GLOBAL: Mutex<Option<Result<Arc<Registry>, RegistryError>>> = Mutex::new(None);

/// The variants found by `inventory`.
#[cfg(feature = "inventory")]
fn linked() -> Result<Arc<Registry>, RegistryError> {
    // link order is arbitrary: sort, so that the error always names the same two files
    let mut found: Vec<_> = inventory::iter::<crate::__private::Submitted>().map(|s| (s.0)()).collect();
    found.sort_by_key(|desc| (desc.name, desc.file, desc.line));
    let mut registry = Registry::empty();
    registry.register_all(&found)?;
    Ok(Arc::new(registry))
}

#[cfg(not(feature = "inventory"))]
fn linked() -> Result<Arc<Registry>, RegistryError> {
    Ok(Arc::new(Registry::empty()))
}

/// Whether an expression can write the name.
fn is_name(name: &str) -> bool {
    let mut letters = name.chars();
    letters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && letters.all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !crate::lang::keywords::is_reserved(name)
}

fn location(desc: &VariantDesc) -> String {
    format!("{}:{}", desc.file, desc.line)
}

/// A table of variants for [`registry::register`](crate::registry::register): `&'static [&'static VariantDesc]`.
///
/// ```
/// # extern crate attn_core as attn;
/// use attn::lang::{AttentionVariant, LogitIndex, VariantDesc};
/// use attn::{VariantParams, attention_variant};
///
/// /// Keys at even positions.
/// #[derive(Clone, VariantParams)]
/// struct Even;
///
/// #[attention_variant]
/// impl AttentionVariant for Even {
///     fn logits_mask(&self, at: LogitIndex) -> bool {
///         at.kv_pos % 2 == 0
///     }
/// }
///
/// fn variants() -> &'static [&'static VariantDesc] {
///     attn::variants![Even]
/// }
/// attn::registry::register(variants())?;
/// assert_eq!(attn::Variant::parse("even").unwrap(), attn::Variant::from(Even));
/// # Ok::<(), attn::RegistryError>(())
/// ```
#[macro_export]
macro_rules! variants {
    ($($variant:ty),* $(,)?) => {{
        static TABLE: ::std::sync::OnceLock<::std::vec::Vec<&'static $crate::lang::VariantDesc>> =
            ::std::sync::OnceLock::new();
        TABLE
            .get_or_init(|| ::std::vec![$(<$variant as $crate::lang::erased_variant::Described>::desc()),*])
            .as_slice()
    }};
}
