//! The radix tree: runs of whole pages, found by tokens, split where prefixes part.

use std::{collections::BTreeSet, sync::Arc};

use hashbrown::HashMap;
use slab::Slab;

use super::{
    index::Index,
    node::{Node, NodeId},
    policy::EvictionPolicy,
};
use crate::{
    CacheError, Namespace, PageRef, PageRefs, Token,
    pages::{Pages, Pool},
};

/// The tree of all namespaces.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) pages: Pages,
    pub(super) nodes: Slab<Node>,
    pub(super) roots: HashMap<Namespace, NodeId>,
    pub(super) index: Index,
    /// The leaves that may be evicted, in the order of the policy.
    pub(super) leaves: BTreeSet<([u64; 2], NodeId)>,
    pub(super) policy: Box<dyn EvictionPolicy>,
    /// Counts operations.
    pub(super) tick: u64,
    pub(super) total_pages: usize,
    pub(super) protected_pages: usize,
    pub(super) asked_tokens: u64,
    pub(super) found_tokens: u64,
}

impl Tree {
    pub(super) fn new(pages: &Pages, policy: Box<dyn EvictionPolicy>) -> Self {
        Tree {
            pages: pages.clone(),
            nodes: Slab::new(),
            roots: HashMap::new(),
            index: Index::new(),
            leaves: BTreeSet::new(),
            policy,
            tick: 0,
            total_pages: 0,
            protected_pages: 0,
            asked_tokens: 0,
            found_tokens: 0,
        }
    }

    pub(super) fn page_size(&self) -> usize {
        self.pages.page_size()
    }

    /// The longest cached prefix of `tokens`, which are whole pages: its last node, and its pages in `to`, which is
    /// empty. A node that matches in part is split first, so the prefix ends where a node does. `None` if nothing is
    /// cached.
    pub(super) fn find(&mut self, namespace: &Namespace, tokens: &[Token], to: &mut PageRefs) -> Option<NodeId> {
        let mut node = *self.roots.get(namespace)?;
        let mut rest = tokens;
        while let Some(child) = self.child(node, rest) {
            let same = self.same_pages(child, rest);
            let whole = same == self.nodes[child].pages.len();
            node = if whole { child } else { self.split(child, same) };
            rest = &rest[same * self.page_size()..];
            to.extend(&self.nodes[node].pages);
            if !whole {
                break;
            }
        }
        (!to.is_empty()).then_some(node)
    }

    /// The child of a node that begins with the next page of `tokens`.
    fn child(&self, node: NodeId, tokens: &[Token]) -> Option<NodeId> {
        let page = tokens.get(..self.page_size())?;
        self.index.find(self.index.hash(node, page), |child| {
            let child = &self.nodes[child];
            child.parent == node && child.tokens.starts_with(page)
        })
    }

    /// How many pages at the start of a node have the same tokens.
    fn same_pages(&self, node: NodeId, tokens: &[Token]) -> usize {
        let node = &self.nodes[node];
        if tokens.starts_with(&node.tokens) {
            return node.pages.len();
        }
        let pages = |tokens| <[Token]>::chunks_exact(tokens, self.page_size());
        pages(&node.tokens).zip(pages(tokens)).take_while(|(ours, theirs)| ours == theirs).count()
    }

    /// Cuts a node after some of its pages, and returns the new node, which has those. The node itself keeps the rest,
    /// and the locks on it stay where they are.
    fn split(&mut self, id: NodeId, pages: usize) -> NodeId {
        let cut = pages * self.page_size();
        let node = &mut self.nodes[id];
        let (rest_tokens, rest_pages) = (node.tokens.split_off(cut), node.pages.split_off(pages));
        let upper = Node {
            parent: node.parent,
            tokens: std::mem::replace(&mut node.tokens, rest_tokens),
            pages: std::mem::replace(&mut node.pages, rest_pages),
            hash: node.hash,
            children: 1,
            locks: node.locks,
            begin: node.begin,
            last_used: node.last_used,
            created: node.created,
            hits: node.hits,
            root_of: None,
            priority: None,
        };
        node.begin += cut;
        let old_hash = node.hash;
        let new = self.nodes.insert(upper);
        self.nodes[id].parent = new;
        let page = &self.nodes[id].tokens[..self.pages.page_size()];
        let hash = self.index.hash(new, page);
        self.index.remove(old_hash, id);
        self.nodes[id].hash = hash;
        for node in [new, id] {
            self.index.insert(self.nodes[node].hash, node, |node| self.nodes[node].hash);
        }
        self.rank(id); // its length has changed
        new
    }

    /// Adds a node below `parent`, or below the root of the namespace. The pages are marked as held by the tree
    /// already.
    pub(super) fn add(
        &mut self,
        namespace: &Namespace,
        parent: Option<NodeId>,
        tokens: &[Token],
        pages: &[PageRef],
    ) -> NodeId {
        let parent = parent.unwrap_or_else(|| self.root(namespace));
        self.tick += 1;
        let above = &mut self.nodes[parent];
        above.children += 1;
        let begin = above.begin + above.tokens.len();
        let hash = self.index.hash(parent, &tokens[..self.pages.page_size()]);
        let node = self.nodes.insert(Node {
            parent,
            tokens: tokens.to_vec(),
            pages: PageRefs::of(self.pages.pool(), pages),
            hash,
            children: 0,
            locks: 0,
            begin,
            last_used: self.tick,
            created: self.tick,
            hits: 0,
            root_of: None,
            priority: None,
        });
        self.index.insert(hash, node, |node| self.nodes[node].hash);
        self.total_pages += pages.len();
        pages.iter().for_each(|page| self.pages.pool().counts().unprotect(page.id() as usize));
        self.rank(parent);
        self.rank(node);
        node
    }

    fn root(&mut self, namespace: &Namespace) -> NodeId {
        if let Some(&root) = self.roots.get(namespace) {
            return root;
        }
        let entry = self.nodes.vacant_entry();
        let root = entry.key();
        entry.insert(Node {
            parent: root,
            tokens: Vec::new(),
            pages: PageRefs::new(self.pages.pool(), 0),
            hash: 0,
            children: 0,
            locks: 0,
            begin: 0,
            last_used: 0,
            created: 0,
            hits: 0,
            root_of: Some(namespace.clone()),
            priority: None,
        });
        self.roots.insert(namespace.clone(), root);
        root
    }

    /// Removes a leaf without pages, and the root above it if that is the last of its namespace.
    pub(super) fn remove(&mut self, id: NodeId) {
        let node = self.nodes.remove(id);
        node.priority.map(|priority| self.leaves.remove(&(priority, id)));
        self.index.remove(node.hash, id);
        let above = &mut self.nodes[node.parent];
        above.children -= 1;
        if above.children == 0 {
            match above.root_of.take() {
                Some(namespace) => {
                    self.roots.remove(&namespace);
                    self.nodes.remove(node.parent);
                }
                None => self.rank(node.parent),
            }
        }
    }

    /// Brings the place of a node among the leaves that may be evicted up to date.
    pub(super) fn rank(&mut self, id: NodeId) {
        let node = &mut self.nodes[id];
        let priority = node.may_be_evicted().then(|| self.policy.priority(&node.info()));
        if node.priority != priority {
            let before = std::mem::replace(&mut node.priority, priority);
            before.map(|before| self.leaves.remove(&(before, id)));
            priority.map(|priority| self.leaves.insert((priority, id)));
        }
    }

    /// Locks the nodes from the root to `node`, of which no page is evicted then.
    pub(super) fn lock(&mut self, node: NodeId) {
        self.tick += 1;
        self.each_to_root(node, |tree, id| {
            let node = &mut tree.nodes[id];
            (node.last_used, node.hits) = (tree.tick, node.hits + 1);
            node.locks += 1;
            if node.locks == 1 {
                tree.protected_pages += node.pages.len();
                let counts = tree.pages.pool().counts();
                node.pages.ids().iter().for_each(|&page| counts.protect(page as usize));
                tree.rank(id);
            }
        });
    }

    /// Takes one lock away. A node is in use until its last lock goes.
    pub(super) fn unlock(&mut self, node: NodeId) {
        self.tick += 1;
        self.each_to_root(node, |tree, id| {
            let node = &mut tree.nodes[id];
            node.last_used = tree.tick;
            node.locks -= 1;
            if node.locks == 0 {
                tree.protected_pages -= node.pages.len();
                let counts = tree.pages.pool().counts();
                node.pages.ids().iter().for_each(|&page| counts.unprotect(page as usize));
                tree.rank(id);
            }
        });
    }

    /// The root of the namespace of a node.
    pub(super) fn root_above(&self, mut node: NodeId) -> NodeId {
        while self.nodes[node].parent != node {
            node = self.nodes[node].parent;
        }
        node
    }

    fn each_to_root(&mut self, mut node: NodeId, mut each: impl FnMut(&mut Self, NodeId)) {
        loop {
            let parent = self.nodes[node].parent;
            each(self, node);
            if parent == node {
                return;
            }
            node = parent;
        }
    }

    /// Marks pages as held by the tree. If one is held already, or twice among them, none is marked.
    pub(super) fn claim(&self, pages: &[PageRef]) -> Result<(), CacheError> {
        let pool: &Arc<Pool> = self.pages.pool();
        let id = |page: &PageRef| page.id() as usize;
        match pages.iter().position(|page| !pool.counts().enter_tree(id(page))) {
            None => Ok(()),
            Some(held) => {
                pages[..held].iter().for_each(|page| pool.counts().leave_tree(id(page)));
                Err(CacheError::InTree { page: pages[held].id() })
            }
        }
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        // another tree may take the place of this one
        let counts = self.pages.pool().counts();
        let pages = self.nodes.iter().flat_map(|(_, node)| node.pages.ids());
        pages.for_each(|&page| counts.leave_tree(page as usize));
    }
}
