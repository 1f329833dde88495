//! Locks: prefixes that are in use.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{node::NodeId, tree::Tree};

/// A tree that handles and locks share.
pub(super) type SharedTree = Arc<Mutex<Tree>>;

/// The tree itself. Its mutex is poisoned only by a policy that panics: some pages of the leaf that it was asked about
/// may then stay in the tree.
pub(super) fn tree_of(shared: &SharedTree) -> MutexGuard<'_, Tree> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps a prefix from eviction, from the root to its last page, until it is dropped. A clone is a second lock.
#[must_use = "the prefix may be evicted once the lock is dropped"]
pub struct PrefixLock {
    /// `None` for the empty prefix.
    held: Option<(SharedTree, NodeId)>,
}

impl PrefixLock {
    /// Takes over a lock that is counted already.
    pub(super) fn counted(tree: &SharedTree, node: Option<NodeId>) -> Self {
        PrefixLock { held: node.map(|node| (Arc::clone(tree), node)) }
    }

    /// The node that ends the prefix, if it is of this tree.
    pub(super) fn node_in(&self, shared: &SharedTree) -> Option<NodeId> {
        self.held.as_ref().filter(|(tree, _)| Arc::ptr_eq(tree, shared)).map(|&(_, node)| node)
    }

    /// Takes over a lock of a node further down, which counts this one.
    pub(super) fn move_to(&mut self, to: NodeId) {
        self.held.iter_mut().for_each(|(_, node)| *node = to);
    }

    /// Tokens that are protected.
    #[must_use]
    pub fn tokens(&self) -> usize {
        self.held.as_ref().map_or(0, |(tree, node)| {
            let node = &tree_of(tree).nodes[*node];
            node.begin + node.tokens.len()
        })
    }
}

impl Clone for PrefixLock {
    fn clone(&self) -> Self {
        if let Some((tree, node)) = &self.held {
            tree_of(tree).lock(*node, None, false);
        }
        PrefixLock { held: self.held.clone() }
    }
}

impl Drop for PrefixLock {
    fn drop(&mut self) {
        if let Some((tree, node)) = &self.held {
            tree_of(tree).unlock(*node);
        }
    }
}

impl fmt::Debug for PrefixLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let node = self.held.as_ref().map(|(_, node)| node);
        f.debug_struct("PrefixLock").field("node", &node).finish()
    }
}
