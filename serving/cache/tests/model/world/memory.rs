//! What keys depend on, and the memory that holds them.

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
    tokens.iter().fold(namespace as u64, |before, &token| next_key(before, token))
}

/// The key of a token, by the one before it.
pub(super) fn next_key(before: u64, token: u32) -> u64 {
    let mixed = (before ^ u64::from(token) << 32 ^ 0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^ mixed >> 31
}

pub(super) fn copy(from: &[u64], to: &mut [u64], pairs: &[[PageId; 2]], page_size: usize) {
    for pair in pairs {
        let [source, target] = pair.map(|page| page as usize * page_size);
        to[target..target + page_size].copy_from_slice(&from[source..source + page_size]);
    }
}
