//! A node of the prefix tree.

use super::policy::LeafInfo;
use crate::{Namespace, PageRefs, Token};

/// Index of a node in the slab.
pub(super) type NodeId = usize;

/// A run of whole pages and their tokens. Only the root of a namespace has none.
#[derive(Debug)]
pub(super) struct Node {
    /// The root of a namespace has itself.
    pub(super) parent: NodeId,
    /// The root of its namespace.
    pub(super) root: NodeId,
    pub(super) tokens: Vec<Token>,
    pub(super) pages: PageRefs,
    /// Its hash in the index.
    pub(super) hash: u64,
    pub(super) children: usize,
    /// The child that was added last, which may be gone.
    pub(super) last_child: NodeId,
    /// Locks of this node and of those below.
    pub(super) locks: usize,
    pub(super) begin: usize,
    pub(super) last_used: u64,
    pub(super) created: u64,
    pub(super) hits: u64,
    /// The namespace of a root.
    pub(super) root_of: Option<Namespace>,
    /// Its key among the leaves that may be evicted.
    pub(super) priority: Option<[u64; 2]>,
}

impl Node {
    pub(super) fn info(&self) -> LeafInfo {
        let &Node { last_used, created, hits, begin, .. } = self;
        LeafInfo { last_used, created, hits, begin, tokens: self.tokens.len() }
    }

    pub(super) fn may_be_evicted(&self) -> bool {
        self.root_of.is_none() && self.children == 0 && self.locks == 0
    }
}
