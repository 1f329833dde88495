//! Namespaces: prompts with equal tokens whose keys differ.

use std::sync::Arc;

/// What the keys of a prefix depend on beside its tokens. Prefixes of different namespaces are never shared.
///
/// ```
/// use attn_cache::Namespace;
///
/// let tenant = Namespace::default().with_salt("tenant 7").with_adapter(3);
/// assert_ne!(tenant, Namespace::default().with_salt("tenant 7"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Namespace {
    salt: Option<Arc<str>>,
    adapter: Option<u64>,
}

impl Namespace {
    /// The same with a salt, which keeps the cache of one tenant from others.
    #[must_use]
    pub fn with_salt(self, salt: &str) -> Self {
        Namespace { salt: Some(salt.into()), ..self }
    }

    /// The same for the keys of a LoRA adapter, by a number of the engine's.
    #[must_use]
    pub fn with_adapter(self, adapter: u64) -> Self {
        Namespace { adapter: Some(adapter), ..self }
    }

    /// The salt.
    #[must_use]
    pub fn salt(&self) -> Option<&str> {
        self.salt.as_deref()
    }

    /// The number of the adapter.
    #[must_use]
    pub fn adapter(&self) -> Option<u64> {
        self.adapter
    }
}
