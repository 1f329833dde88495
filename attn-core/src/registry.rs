//! The registry of variants and of KV formats by name.
//!
//! Both are registered in three ways: by `inventory`, which finds all that are linked; by tables that
//! [`variants!`](crate::variants) and [`kv_formats!`](crate::kv_formats) make, given to [`register`] and
//! [`register_kv_formats`]; and by [`Registry::register`] and [`Registry::register_kv_format`] on a registry of your
//! own. Static libraries lose `inventory` entries, so it is never the only way.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::lang::{VariantDesc, kv_format::KvFormatDesc};

/// Variants and KV formats by name, sorted.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    by_name: BTreeMap<&'static str, &'static VariantDesc>,
    formats: BTreeMap<&'static str, &'static KvFormatDesc>,
}

/// Why a variant or a KV format cannot be registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // of fields, which the messages name
pub enum RegistryError {
    /// Two variants have the same name.
    #[error(
        "two variants are called `{name}`: at {first} and at {second}; rename one with `#[attention_variant(name = \
         \"..\")]`"
    )]
    Duplicate { name: String, first: String, second: String },
    /// Two KV formats have the same name.
    #[error(
        "two KV formats are called `{name}`: at {first} and at {second}; rename one with `#[kv_format(name = \"..\")]`"
    )]
    DuplicateFormat { name: String, first: String, second: String },
    /// An expression cannot write the name.
    #[error(
        "`{name}` at {location} cannot be the name of a variant or of a KV format: use letters, digits and `_`, not a \
         digit first, and no word of the grammar (true, false, inf, nan, or, not, remap, per_head, union)"
    )]
    Name { name: String, location: String },
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
            return Err(RegistryError::Name { name: desc.name.to_owned(), location: location(desc.file, desc.line) });
        }
        match self.by_name.get(desc.name) {
            Some(&there) if !std::ptr::eq(there, desc) && (there.text.is_none() || desc.text.is_none()) => {
                Err(RegistryError::Duplicate {
                    name: desc.name.to_owned(),
                    first: location(there.file, there.line),
                    second: location(desc.file, desc.line),
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
    /// The errors of [`Registry::register`].
    pub fn register_all(&mut self, table: &[&'static VariantDesc]) -> Result<(), RegistryError> {
        let mut all = self.clone();
        table.iter().try_for_each(|desc| all.register(desc))?;
        *self = all;
        Ok(())
    }

    /// Adds a KV format. Adding it again has no effect.
    ///
    /// # Errors
    /// Another format has the name, or a text cannot write it.
    pub fn register_kv_format(&mut self, desc: &'static KvFormatDesc) -> Result<(), RegistryError> {
        let (name, second) = (desc.name.to_owned(), location(desc.file, desc.line));
        if !is_name(desc.name) {
            return Err(RegistryError::Name { name, location: second });
        }
        match self.formats.insert(desc.name, desc) {
            Some(there) if !std::ptr::eq(there, desc) => {
                self.formats.insert(desc.name, there);
                Err(RegistryError::DuplicateFormat { name, first: location(there.file, there.line), second })
            }
            _ => Ok(()),
        }
    }

    /// The KV formats, sorted by name.
    pub fn kv_formats(&self) -> impl ExactSizeIterator<Item = &'static KvFormatDesc> {
        self.formats.values().copied()
    }

    /// The KV format of a name.
    #[must_use]
    pub fn kv_format(&self, name: &str) -> Option<&'static KvFormatDesc> {
        self.formats.get(name).copied()
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
/// The errors of [`Registry::register`] and [`Registry::global`].
pub fn register(table: &[&'static VariantDesc]) -> Result<(), RegistryError> {
    change(|all| all.register_all(table))
}

/// Adds KV formats to the global registry, all or none, as [`register`] adds variants.
///
/// # Errors
/// The errors of [`Registry::register_kv_format`] and [`Registry::global`].
pub fn register_kv_formats(table: &[&'static KvFormatDesc]) -> Result<(), RegistryError> {
    change(|all| table.iter().try_for_each(|desc| all.register_kv_format(desc)))
}

fn change(add: impl FnOnce(&mut Registry) -> Result<(), RegistryError>) -> Result<(), RegistryError> {
    let mut global = GLOBAL.lock().unwrap_or_else(PoisonError::into_inner);
    let mut all = Registry::clone(&*global.get_or_insert_with(linked).clone()?);
    add(&mut all)?;
    *global = Some(Ok(Arc::new(all)));
    Ok(())
}

/// `None` before the first use. Readers get a snapshot, so they do not hold the lock.
static GLOBAL: Mutex<Option<Result<Arc<Registry>, RegistryError>>> = Mutex::new(None);

/// The variants and formats found by `inventory`.
#[cfg(feature = "inventory")]
fn linked() -> Result<Arc<Registry>, RegistryError> {
    // link order is arbitrary: sort, so that the error always names the same two files
    let mut found: Vec<_> = inventory::iter::<crate::__private::Submitted>().map(|s| (s.0)()).collect();
    found.sort_by_key(|desc| (desc.name, desc.file, desc.line));
    let mut registry = Registry::empty();
    registry.register_all(&found)?;
    let mut formats: Vec<_> = inventory::iter::<crate::__private::SubmittedKvFormat>().map(|s| (s.0)()).collect();
    formats.sort_by_key(|desc| (desc.name, desc.file, desc.line));
    formats.iter().try_for_each(|desc| registry.register_kv_format(desc))?;
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

fn location(file: &str, line: u32) -> String {
    format!("{file}:{line}")
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

/// A table of KV formats for [`registry::register_kv_formats`](crate::registry::register_kv_formats): `&'static
/// [&'static KvFormatDesc]`, as [`variants!`](crate::variants) makes one of variants.
#[macro_export]
macro_rules! kv_formats {
    ($($format:ty),* $(,)?) => {{
        static TABLE: ::std::sync::OnceLock<::std::vec::Vec<&'static $crate::lang::kv_format::KvFormatDesc>> =
            ::std::sync::OnceLock::new();
        TABLE
            .get_or_init(|| ::std::vec![$(<$format as $crate::lang::kv_format::DescribedKvFormat>::desc()),*])
            .as_slice()
    }};
}
