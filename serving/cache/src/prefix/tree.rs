//! The radix tree: runs of whole pages, found by tokens, split where prefixes part.

use std::{collections::BTreeSet, sync::Arc};

use hashbrown::HashMap;
use slab::Slab;

use super::index::Index;
use super::node::{Node, NodeId};
use super::policy::EvictionPolicy;
use crate::pages::{Pages, Pool};
use crate::{CacheError, Namespace, PageId, PageRef, PageRefs, Token};

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

    /// The longest cached run of `tokens`, which are whole pages, below a node: its last node, and what each node has.
    /// A node that matches in part is split first, so the run ends where a node does. The node itself if nothing is
    /// cached.
    pub(super) fn find(&mut self, mut node: NodeId, tokens: &[Token], mut each: impl FnMut(&PageRefs)) -> NodeId {
        let mut rest = tokens;
        while let Some(child) = self.child(node, rest) {
            let same = self.same_pages(child, rest);
            let whole = same == self.nodes[child].pages.len();
            node = if whole { child } else { self.split(child, same) };
            rest = &rest[same * self.page_size()..];
            each(&self.nodes[node].pages);
            if !whole {
                break;
            }
        }
        node
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
            root: node.root,
            tokens: std::mem::replace(&mut node.tokens, rest_tokens),
            pages: std::mem::replace(&mut node.pages, rest_pages),
            hash: node.hash,
            children: 1,
            last_child: id,
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

    /// Adds a run below `parent`, and returns the node that ends with it. A leaf that no one else has locked grows
    /// instead, so a text that is cached page by page is one node. `held` is the node whose lock the caller has. The
    /// pages are marked as held by the tree already.
    pub(super) fn add(&mut self, parent: NodeId, held: Option<NodeId>, tokens: &[Token], pages: &[PageRef]) -> NodeId {
        self.tick += 1;
        self.total_pages += pages.len();
        let unprotect = |page: &PageRef| self.pages.pool().counts().unprotect(page.id() as usize);
        let own_locks = usize::from(held == Some(parent));
        let leaf = &mut self.nodes[parent];
        if leaf.root_of.is_none() && leaf.children == 0 && leaf.locks == own_locks {
            leaf.tokens.extend_from_slice(tokens);
            pages.iter().for_each(|page| leaf.pages.push(page));
            leaf.last_used = self.tick;
            if own_locks == 0 {
                pages.iter().for_each(unprotect);
                self.rank(parent);
            } else {
                self.protected_pages += pages.len();
            }
            return parent;
        }
        let above = &mut self.nodes[parent];
        above.children += 1;
        let (begin, root) = (above.begin + above.tokens.len(), above.root);
        let hash = self.index.hash(parent, &tokens[..self.pages.page_size()]);
        let node = self.nodes.insert(Node {
            parent,
            root,
            tokens: tokens.to_vec(),
            pages: PageRefs::of(self.pages.pool(), pages),
            hash,
            children: 0,
            last_child: parent,
            locks: 0,
            begin,
            last_used: self.tick,
            created: self.tick,
            hits: 0,
            root_of: None,
            priority: None,
        });
        self.nodes[parent].last_child = node;
        self.index.insert(hash, node, |node| self.nodes[node].hash);
        pages.iter().for_each(unprotect);
        self.rank(parent);
        self.rank(node);
        node
    }

    pub(super) fn root(&mut self, namespace: &Namespace) -> NodeId {
        if let Some(&root) = self.roots.get(namespace) {
            return root;
        }
        let entry = self.nodes.vacant_entry();
        let root = entry.key();
        entry.insert(Node {
            parent: root,
            root,
            tokens: Vec::new(),
            pages: PageRefs::new(self.pages.pool(), 0),
            hash: 0,
            children: 0,
            last_child: root,
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

    /// Locks the nodes from the root to `node`, of which no page is evicted then; from below `held` on, if the caller
    /// has a lock there, which is then one of `node`. A lookup has `found` them.
    pub(super) fn lock(&mut self, node: NodeId, held: Option<NodeId>, found: bool) {
        self.tick += 1;
        self.each_up(node, held, |tree, id| {
            let node = &mut tree.nodes[id];
            (node.last_used, node.hits) = (tree.tick, node.hits + u64::from(found));
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
        self.each_up(node, None, |tree, id| {
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
        self.join(node);
    }

    /// Puts a node and its only child together, if every lock on it is one of the child: what was cached page by page
    /// is one node then. The child stays, for its locks name it.
    fn join(&mut self, id: NodeId) {
        let node = &self.nodes[id];
        let child = node.last_child;
        let all_below = |child: &Node| child.parent == id && child.locks == node.locks;
        if node.children != 1 || node.locks == 0 || !self.nodes.get(child).is_some_and(all_below) {
            return;
        }
        let upper = self.nodes.remove(id);
        let lower = &mut self.nodes[child];
        self.index.remove(upper.hash, id);
        self.index.remove(lower.hash, child);
        let (rest_tokens, rest_pages) =
            (std::mem::replace(&mut lower.tokens, upper.tokens), std::mem::replace(&mut lower.pages, upper.pages));
        lower.tokens.extend(rest_tokens);
        lower.pages.append(rest_pages);
        (lower.parent, lower.hash, lower.begin) = (upper.parent, upper.hash, upper.begin);
        (lower.created, lower.hits) = (upper.created, upper.hits);
        self.index.insert(upper.hash, child, |node| self.nodes[node].hash);
        let above = &mut self.nodes[upper.parent];
        if above.last_child == id {
            above.last_child = child;
        }
    }

    /// Whether a node ends the prefix `tokens` of a namespace with the page `last`, as far as the tokens of that page
    /// say: who has a lock on the node has named all of them before.
    pub(super) fn ends(&self, node: NodeId, namespace: &Namespace, tokens: &[Token], last: PageId) -> bool {
        let Node { begin, tokens: own, pages, root, .. } = &self.nodes[node];
        let of_last = self.page_size().min(tokens.len());
        begin + own.len() == tokens.len()
            && pages.ids().last() == Some(&last)
            && own.ends_with(&tokens[tokens.len() - of_last..])
            && self.nodes[*root].root_of.as_ref() == Some(namespace)
    }

    /// From a node up to the root, or to below another.
    fn each_up(&mut self, mut node: NodeId, below: Option<NodeId>, mut each: impl FnMut(&mut Self, NodeId)) {
        while Some(node) != below {
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
