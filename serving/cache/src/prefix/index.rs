//! The children of all nodes, by the tokens of their first page.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::node::NodeId;
use crate::Token;

/// A hash table of nodes. A hash only says where to look: the caller compares parent and tokens.
#[derive(Debug)]
pub(super) struct Index {
    table: HashTable<NodeId>,
    hasher: DefaultHashBuilder,
    /// Hash bits in use; tests clear them so that all hashes collide.
    pub(super) mask: u64,
}

impl Index {
    pub(super) fn new() -> Self {
        Index { table: HashTable::new(), hasher: DefaultHashBuilder::default(), mask: u64::MAX }
    }

    /// The hash of a child: its parent, and the tokens of its first page.
    pub(super) fn hash(&self, parent: NodeId, page: &[Token]) -> u64 {
        self.hasher.hash_one((parent, page)) & self.mask
    }

    pub(super) fn find(&self, hash: u64, is_child: impl Fn(NodeId) -> bool) -> Option<NodeId> {
        self.table.find(hash, |&node| is_child(node)).copied()
    }

    pub(super) fn insert(&mut self, hash: u64, node: NodeId, hash_of: impl Fn(NodeId) -> u64) {
        self.table.insert_unique(hash, node, |&node| hash_of(node));
    }

    pub(super) fn remove(&mut self, hash: u64, node: NodeId) {
        if let Ok(entry) = self.table.find_entry(hash, |&entry| entry == node) {
            entry.remove();
        }
    }

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }
}
