//! Insertion: what the tree has is found, and the rest is added.

use super::{Found, Remap, node::NodeId, tree::Tree};
use crate::{CacheError, Namespace, PageId, PageRef, Token};

impl Tree {
    /// Caches `tokens`, which fill `pages`, and locks them: after the node `held`, whose lock the caller has, or as a
    /// prefix of the namespace. Returns the node that ends with them, if there are any.
    pub(super) fn insert(
        &mut self,
        namespace: &Namespace,
        held: Option<NodeId>,
        tokens: &[Token],
        pages: &[PageRef],
    ) -> Result<(Option<NodeId>, Found), CacheError> {
        let pool = self.pages.pool();
        if let Some(other) = pages.iter().find(|page| !page.is_of(pool)) {
            return Err(CacheError::OtherPool { page: other.id() });
        }
        // the tree is locked, so its pages stay without further references
        let mut of_tree: Vec<PageId> = Vec::new();
        let from = held.or_else(|| self.roots.get(namespace).copied());
        let mut node = from.map(|from| self.find(from, tokens, |run| of_tree.extend_from_slice(run.ids())));
        let (count, page_size) = (of_tree.len(), self.page_size());
        self.claim(&pages[count..])?;
        if count < pages.len() {
            let parent = node.unwrap_or_else(|| self.root(namespace));
            node = Some(self.add(parent, held, &tokens[count * page_size..], &pages[count..]));
        }
        node = node.filter(|_| !pages.is_empty());
        if let Some(node) = node {
            self.lock(node, held, false);
        }
        let of_caller = pages.iter().map(PageRef::id);
        let differing = of_tree.into_iter().zip(of_caller).enumerate().filter(|(_, (ours, theirs))| ours != theirs);
        let remap = |(index, (page, _))| Remap { index, page: PageRef::another(self.pages.pool(), page) };
        let remaps = differing.map(remap).collect();
        Ok((node, Found { reused: count * page_size, remaps }))
    }
}
