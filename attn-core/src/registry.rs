//! The registry: variants by name.
//!
//! Three equal doors lead in: `inventory` (a linked variant is there by itself), tables made by [`variants!`](crate::variants)
//! and given to [`register`], and [`Registry::register`] on a registry of one's own. Static libraries lose
//! `inventory` entries, which is why it is never the only one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::lang::VariantDesc;

/// Variants by name, sorted.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    by_name: BTreeMap<&'static str, &'static VariantDesc>,
}

/// What can be wrong with a registration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// Two variants of one name.
    #[error(
        "two variants are called `{name}`: at {first} and at {second}; rename one with `#[attention_variant(name = \"..\")]`"
    )]
    Duplicate {
        /// The name.
        name: String,
        /// File and line of the variant that was there.
        first: String,
        /// File and line of the variant that came.
        second: String,
    },
    /// A name that an expression cannot write.
    #[error(
        "`{name}` at {place} cannot be a variant's name: use letters, digits and `_`, not a digit first, and no word of the grammar (true, false, inf, nan, or, not, remap, per_head, union)"
    )]
    Name {
        /// The name.
        name: String,
        /// File and line of the variant.
        place: String,
    },
}

impl Registry {
    /// A registry without variants.
    #[must_use]
    pub fn empty() -> Self {
        Self::default()
    }

    /// The variants of the program so far: those that `inventory` found, and those given to [`register`].
    ///
    /// # Errors
    /// Two linked variants of one name, found at first use and from then on.
    pub fn global() -> Result<Arc<Registry>, RegistryError> {
        let mut global = GLOBAL.lock().unwrap_or_else(PoisonError::into_inner);
        global.get_or_insert_with(linked).clone()
    }

    /// Adds a variant. Adding the same one again changes nothing.
    ///
    /// # Errors
    /// Another variant has its name, or the name is not one that an expression can write.
    pub fn register(&mut self, desc: &'static VariantDesc) -> Result<(), RegistryError> {
        if !is_name(desc.name) {
            return Err(RegistryError::Name { name: desc.name.to_owned(), place: place(desc) });
        }
        match self.by_name.get(desc.name) {
            Some(&there) if !std::ptr::eq(there, desc) => {
                Err(RegistryError::Duplicate { name: desc.name.to_owned(), first: place(there), second: place(desc) })
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

/// Adds variants to the global registry, all or none: the way in where `inventory` is off or its entries were lost.
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

/// `None` before first use. Readers get a snapshot, so that nobody waits for a lock held by another.
static GLOBAL: Mutex<Option<Result<Arc<Registry>, RegistryError>>> = Mutex::new(None);

/// What `inventory` found.
#[cfg(feature = "inventory")]
fn linked() -> Result<Arc<Registry>, RegistryError> {
    // the linker's order is no order: sort, so that the error names the same two files every time
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
        && !crate::expr::is_reserved(name)
}

fn place(desc: &VariantDesc) -> String {
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
            .get_or_init(|| ::std::vec![$(<$variant as $crate::lang::erased::Described>::desc()),*])
            .as_slice()
    }};
}
