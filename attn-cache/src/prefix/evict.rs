//! Eviction: leaves are cut from their ends.

use super::tree::Tree;

/// What an eviction did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evicted {
    /// Pages that are free now.
    pub freed: usize,
    /// Tokens that are no longer cached. Pages that someone beside the tree holds are not free yet.
    pub tokens: usize,
}

impl Tree {
    /// Evicts until `want` pages are free that were not, or nothing is left that may be evicted. A leaf loses its last
    /// pages first: what remains of it is still a prefix.
    pub(super) fn evict(&mut self, want: usize) -> Evicted {
        let page_size = self.page_size();
        let mut done = Evicted::default();
        while done.freed < want
            && let Some(&(_, id)) = self.leaves.first()
        {
            let node = &mut self.nodes[id];
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
                self.leaves.pop_first();
                self.remove(id);
            } else {
                self.rank(id);
            }
        }
        done
    }
}
