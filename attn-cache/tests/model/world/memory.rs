//! What keys depend on, and the memory that holds them.

use std::hash::{DefaultHasher, Hash, Hasher};

use attn_cache::{Namespace, PageId};

pub(super) fn namespace(number: usize) -> Namespace {
    match number {
        0 => Namespace::default(),
        1 => Namespace::default().with_salt("salt"),
        _ => Namespace::default().with_salt("salt").with_adapter(1),
    }
}

/// What a key depends on: the namespace, and all tokens up to it.
pub(super) fn key(namespace: usize, tokens: &[u32]) -> u64 {
    let mut hasher = DefaultHasher::new();
    (namespace, tokens).hash(&mut hasher);
    hasher.finish()
}

pub(super) fn copy(from: &[u64], to: &mut [u64], pairs: &[[PageId; 2]], page_size: usize) {
    for pair in pairs {
        let [source, target] = pair.map(|page| page as usize * page_size);
        to[target..target + page_size].copy_from_slice(&from[source..source + page_size]);
    }
}
