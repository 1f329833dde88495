//! Checks of the tree.

use hashbrown::HashMap;

use super::node::{Node, NodeId};
use super::tree::Tree;
use crate::CacheError;

impl Tree {
    /// Checks every invariant of the tree, from what the nodes hold.
    pub(super) fn check(&self) -> Result<(), CacheError> {
        self.pages.check()?;
        let (mut total, mut protected) = (0, 0);
        let mut below: HashMap<NodeId, (usize, usize)> = HashMap::new();
        let mut seen = vec![false; self.pages.count()];
        for (id, node) in &self.nodes {
            self.check_node(id, node)?;
            total += node.pages.len();
            protected += if node.locks > 0 { node.pages.len() } else { 0 };
            if node.root_of.is_none() {
                let (children, locks) = below.entry(node.parent).or_default();
                (*children, *locks) = (*children + 1, *locks + node.locks);
            }
            for &page in node.pages.ids() {
                let twice = std::mem::replace(&mut seen[page as usize], true);
                ensure(!twice, || format!("page {page} is twice in the tree"))?;
            }
        }
        for (id, node) in &self.nodes {
            let (children, locks) = below.get(&id).copied().unwrap_or_default();
            ensure(node.children == children, || {
                format!("node {id} counts {} children and has {children}", node.children)
            })?;
            ensure(node.locks >= locks, || format!("{locks} locks below node {id}, which has {}", node.locks))?;
            ensure(node.root_of.is_none() || children > 0, || format!("root {id} has no children"))?;
        }
        let counted = (self.total_pages, self.protected_pages);
        ensure(counted == (total, protected), || {
            format!("the tree has {total} pages, {protected} of them protected; it counts {counted:?}")
        })?;
        let ranked = self.nodes.iter().filter(|(_, node)| node.may_be_evicted()).count();
        ensure(self.leaves.len() == ranked, || format!("{} of {ranked} leaves are ranked", self.leaves.len()))?;
        let inner = self.nodes.len() - self.roots.len();
        ensure(self.index.len() == inner, || format!("the index has {} of {inner} nodes", self.index.len()))
    }

    fn check_node(&self, id: NodeId, node: &Node) -> Result<(), CacheError> {
        if let Some(namespace) = &node.root_of {
            let sound = node.parent == id && node.root == id && node.pages.is_empty() && node.tokens.is_empty();
            return ensure(sound && self.roots.get(namespace) == Some(&id), || format!("node {id} is no sound root"));
        }
        let sizes = (node.tokens.len(), node.pages.len() * self.page_size());
        ensure(sizes.0 == sizes.1 && sizes.0 > 0, || format!("node {id} has {} tokens in {} slots", sizes.0, sizes.1))?;
        let parent = self.nodes.get(node.parent);
        let root = parent.map(|parent| parent.root);
        ensure(root == Some(node.root), || format!("node {id} is below root {root:?}, not {}", node.root))?;
        let begin = parent.map(|parent| parent.begin + parent.tokens.len());
        ensure(begin == Some(node.begin), || format!("node {id} begins at {}, not at {begin:?}", node.begin))?;
        let page = &node.tokens[..self.page_size()];
        let hash = self.index.hash(node.parent, page);
        let found = self.index.find(hash, |other| {
            let other = &self.nodes[other];
            other.parent == node.parent && other.tokens.starts_with(page)
        });
        ensure(found == Some(id) && hash == node.hash, || format!("node {id} is not found: {found:?} is"))?;
        let priority = node.may_be_evicted().then(|| self.policy.priority(&node.info()));
        let ranked = priority.is_none_or(|priority| self.leaves.contains(&(priority, id)));
        ensure(node.priority == priority && ranked, || format!("node {id} is ranked {:?}", node.priority))?;
        let counts = self.pages.pool().counts();
        let marked = node.pages.ids().iter().all(|&page| {
            let page = page as usize;
            counts.is_in_tree(page) && counts.is_unprotected(page) == (node.locks == 0)
        });
        ensure(marked, || format!("the pages of node {id} are not marked as its locks say"))
    }
}

fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<(), CacheError> {
    if holds { Ok(()) } else { Err(CacheError::Broken(what())) }
}
