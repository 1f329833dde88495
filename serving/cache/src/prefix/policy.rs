//! Which leaf of the prefix tree is evicted first.

use std::fmt::Debug;

/// What a policy may know of a leaf. Times count the operations of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeafInfo {
    /// When the leaf was last found, inserted, or unlocked.
    pub last_used: u64,
    /// When the leaf, or what it grew from, was inserted. The parts of a leaf that was split have the same time.
    pub created: u64,
    /// How often a lookup has found the leaf, or what it grew from.
    pub hits: u64,
    /// Tokens before the leaf.
    pub begin: usize,
    /// Tokens of the leaf.
    pub tokens: usize,
}

/// Orders the leaves that may be evicted. The order of a leaf may depend on its [`LeafInfo`] alone: the tree asks when
/// that changes, and not again.
///
/// ```
/// use attn_cache::{EvictionPolicy, LeafInfo, Pages, Prefix};
///
/// /// What is seldom found goes first; among equals, what was not used for longest.
/// #[derive(Debug)]
/// struct LeastFrequentlyUsed;
///
/// impl EvictionPolicy for LeastFrequentlyUsed {
///     fn priority(&self, leaf: &LeafInfo) -> [u64; 2] {
///         [leaf.hits, leaf.last_used]
///     }
/// }
///
/// let prefix = Prefix::with_policy(&Pages::new(64, 16)?, LeastFrequentlyUsed);
/// # Ok::<(), attn_cache::CacheError>(())
/// ```
pub trait EvictionPolicy: Debug + Send {
    /// The leaf with the least priority is evicted first, from its end. It is called under the lock of the tree, which
    /// it must not use, and must not panic.
    fn priority(&self, leaf: &LeafInfo) -> [u64; 2];
}

/// Evicts what was not used for the longest time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lru;

impl EvictionPolicy for Lru {
    fn priority(&self, leaf: &LeafInfo) -> [u64; 2] {
        [leaf.last_used, 0]
    }
}
