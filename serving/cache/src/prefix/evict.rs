//! Eviction: leaves are cut from their ends.

use super::node::{Node, NodeId};
use super::tree::Tree;
use crate::Namespace;

/// What an eviction did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evicted {
    /// Pages that are free now.
    pub freed: usize,
    /// Tokens that are no longer cached. Pages that someone beside the tree holds are not free yet.
    pub tokens: usize,
}

impl Tree {
    /// Evicts until `want` pages are free that were not, or nothing is left that may be evicted.
    pub(super) fn evict(&mut self, want: usize) -> Evicted {
        let mut done = Evicted::default();
        while done.freed < want
            && let Some(&(_, leaf)) = self.leaves.first()
        {
            self.shorten(leaf, want, &mut done);
        }
        done
    }

    /// Evicts everything of a namespace that no lock protects.
    pub(super) fn evict_namespace(&mut self, namespace: &Namespace) -> Evicted {
        let mut done = Evicted::default();
        let Some(&root) = self.roots.get(namespace) else { return done };
        let leaves: Vec<NodeId> = self.leaves.iter().map(|&(_, leaf)| leaf).collect();
        for leaf in leaves.into_iter().filter(|&leaf| self.nodes[leaf].root == root).collect::<Vec<_>>() {
            // a node becomes a leaf when its last child goes; the root goes with its own
            let mut next = Some(leaf);
            while let Some(node) = next.filter(|&node| self.nodes.get(node).is_some_and(Node::may_be_evicted)) {
                next = Some(self.nodes[node].parent);
                self.shorten(node, usize::MAX, &mut done);
            }
        }
        done
    }

    /// Takes pages from the end of a leaf until `want` are free: what remains of it is still a prefix.
    fn shorten(&mut self, leaf: NodeId, want: usize, done: &mut Evicted) {
        let page_size = self.page_size();
        let node = &mut self.nodes[leaf];
        while done.freed < want
            && let Some(page) = node.pages.pop()
        {
            self.pages.pool().counts().leave_tree(page.id() as usize);
            done.freed += usize::from(page.refs() == 1);
            done.tokens += page_size;
            self.total_pages -= 1;
        }
        node.tokens.truncate(node.pages.len() * page_size);
        if node.pages.is_empty() {
            self.remove(leaf);
        } else {
            self.rank(leaf);
        }
    }
}
