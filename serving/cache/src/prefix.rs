//! The prefix tree: cached prefixes, found by their tokens.

mod check;
mod evict;
mod index;
mod insert;
mod lock;
mod node;
mod policy;
mod tree;

use std::sync::{Arc, Mutex, MutexGuard};

pub use evict::Evicted;
pub use lock::PrefixLock;
use lock::{SharedTree, tree_of};
pub use policy::{EvictionPolicy, LeafInfo, Lru};
use tree::Tree;

use crate::pages::{PageRef, PageRefs, PageStats, Pages};
use crate::{CacheError, Namespace, OutOfPages, PageId, Token};

/// A radix tree over the tokens of cached prefixes, in whole pages. A clone is another handle to the same tree.
///
/// A pool has at most one tree. Prefixes are compared token by token; hashes only say where to look.
#[derive(Clone, Debug)]
pub struct Prefix {
    tree: SharedTree,
}

/// A cached prefix of a prompt.
#[derive(Clone, Debug)]
#[must_use = "a prefix that is not used is computed again"]
pub struct Hit {
    /// Its tokens: a multiple of the page size, and fewer than the prompt has.
    pub tokens: usize,
    /// Its pages.
    pub pages: PageRefs,
    /// Keeps the prefix in the tree.
    pub lock: PrefixLock,
}

/// What an insertion did.
#[derive(Clone, Debug)]
#[must_use = "the caller has to use the pages of `remaps`, and to keep the lock"]
pub struct Inserted {
    /// Tokens that were cached already.
    pub reused: usize,
    /// Pages that the tree holds already, and that the caller has a copy of. The caller takes those of the tree.
    pub remaps: Vec<Remap>,
    /// Keeps the prefix in the tree.
    pub lock: PrefixLock,
}

/// A page that takes the place of a copy.
#[derive(Clone, Debug)]
pub struct Remap {
    /// Which page of the prefix.
    pub index: usize,
    /// The page of the tree.
    pub page: PageRef,
}

/// Counts of a tree, in tokens: `evictable + protected = tokens`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefixStats {
    /// Tokens that are cached.
    pub tokens: usize,
    /// Tokens that no lock protects.
    pub evictable: usize,
    /// Tokens that a lock protects.
    pub protected: usize,
    /// Tokens of all prompts that were looked up.
    pub asked: u64,
    /// Tokens of them that were found.
    pub found: u64,
}

/// What an insertion has found.
pub(crate) struct Found {
    /// Tokens that were cached already.
    pub(crate) reused: usize,
    pub(crate) remaps: Vec<Remap>,
}

impl Prefix {
    /// An empty tree over the pages of a pool, which evicts what was not used for the longest time.
    #[must_use]
    pub fn new(pages: &Pages) -> Self {
        Prefix::with_policy(pages, Lru)
    }

    /// An empty tree with another policy.
    #[must_use]
    pub fn with_policy(pages: &Pages, policy: impl EvictionPolicy + 'static) -> Self {
        Prefix { tree: Arc::new(Mutex::new(Tree::new(pages, Box::new(policy)))) }
    }

    fn tree(&self) -> MutexGuard<'_, Tree> {
        tree_of(&self.tree)
    }

    /// Finds and locks the longest cached prefix of a prompt. It ends before the last token of the prompt: a model
    /// needs one query at least to give logits.
    pub fn lookup(&self, namespace: &Namespace, prompt: &[Token]) -> Hit {
        let tree = &mut *self.tree();
        let page_size = tree.page_size();
        let whole = prompt.len().saturating_sub(1) / page_size * page_size;
        let mut pages = PageRefs::new(tree.pages.pool(), whole / page_size);
        let root = tree.roots.get(namespace).copied();
        let node = root.map(|root| tree.find(root, &prompt[..whole], |run| pages.extend(run)));
        let node = node.filter(|_| !pages.is_empty());
        if let Some(node) = node {
            tree.lock(node, None, true);
        }
        let tokens = pages.len() * page_size;
        tree.asked_tokens += prompt.len() as u64;
        tree.found_tokens += tokens as u64;
        Hit { tokens, pages, lock: PrefixLock::counted(&self.tree, node) }
    }

    /// Caches the whole pages of `tokens`, and locks them. `pages` are those of the tokens in order; a last page that
    /// is not full is not needed, and not cached. All keys of the pages must be written, or be on their way in an
    /// earlier launch of the same stream.
    ///
    /// It compares all of `tokens`. [`Sequence::cache`](crate::Sequence::cache) compares those that are new, for a text
    /// that is cached page by page.
    ///
    /// # Errors
    ///
    /// [`CacheError::TooFewPages`]; [`CacheError::OtherPool`]; [`CacheError::InTree`] for a page that the tree holds
    /// for other tokens.
    pub fn insert(&self, namespace: &Namespace, tokens: &[Token], pages: &[PageRef]) -> Result<Inserted, CacheError> {
        let tree = &mut *self.tree();
        let page_size = tree.page_size();
        let want = tokens.len() / page_size;
        let tokens = &tokens[..want * page_size];
        let Some(pages) = pages.get(..want) else {
            return Err(CacheError::TooFewPages { tokens: tokens.len(), pages: pages.len(), want });
        };
        let (node, found) = tree.insert(namespace, None, tokens, pages)?;
        let lock = PrefixLock::counted(&self.tree, node);
        Ok(Inserted { reused: found.reused, remaps: found.remaps, lock })
    }

    /// Inserts whole pages, whose first tokens have the lock already, and end with the page `last`; `pages` are those
    /// after them. The lock is then one of all tokens. It takes time by the tokens after the lock's alone. `None`, and
    /// nothing has changed, if the lock is not one of these tokens.
    pub(crate) fn insert_after(
        &self,
        lock: &mut PrefixLock,
        namespace: &Namespace,
        tokens: &[Token],
        last: PageId,
        pages: &[PageRef],
    ) -> Result<Option<Found>, CacheError> {
        let tree = &mut *self.tree();
        let known = tokens.len() - pages.len() * tree.page_size();
        let Some(held) = lock.node_in(&self.tree).filter(|&node| tree.ends(node, namespace, &tokens[..known], last))
        else {
            return Ok(None);
        };
        let (node, mut found) = tree.insert(namespace, Some(held), &tokens[known..], pages)?;
        lock.move_to(node.unwrap_or(held));
        found.reused += known;
        found.remaps.iter_mut().for_each(|remap| remap.index += known / tree.page_size());
        Ok(Some(found))
    }

    /// Evicts until `want` more pages are free, or nothing is left that may be evicted.
    pub fn evict(&self, want: usize) -> Evicted {
        self.tree().evict(want)
    }

    /// Evicts everything that no lock protects: weights have changed, say.
    pub fn clear(&self) -> Evicted {
        self.tree().evict(usize::MAX)
    }

    /// Evicts everything of one namespace that no lock protects: its adapter was unloaded, or its tenant has left.
    pub fn clear_namespace(&self, namespace: &Namespace) -> Evicted {
        self.tree().evict_namespace(namespace)
    }

    /// Makes sure that `need` pages are free; evicts no more than that takes.
    ///
    /// # Errors
    ///
    /// [`OutOfPages`] if eviction cannot make that many free. Nothing is evicted then, unless others use the pool at
    /// the same time.
    pub fn reserve(&self, need: usize) -> Result<Evicted, OutOfPages> {
        let tree = &mut *self.tree();
        let stats = tree.pages.stats();
        let (free, evictable) = (stats.free, stats.evictable);
        if need > free + evictable {
            return Err(OutOfPages { need, free, evictable });
        }
        let evicted = tree.evict(need.saturating_sub(free));
        // another thread may have taken pages, or the pages may be those of another tree
        let PageStats { free, evictable, .. } = tree.pages.stats();
        if need > free { Err(OutOfPages { need, free, evictable }) } else { Ok(evicted) }
    }

    /// The pool.
    #[must_use]
    pub fn pages(&self) -> Pages {
        self.tree().pages.clone()
    }

    /// The counts now.
    #[must_use]
    pub fn stats(&self) -> PrefixStats {
        let tree = self.tree();
        let of_pages = |pages: usize| pages * tree.page_size();
        let (tokens, protected) = (of_pages(tree.total_pages), of_pages(tree.protected_pages));
        let (asked, found) = (tree.asked_tokens, tree.found_tokens);
        PrefixStats { tokens, evictable: tokens - protected, protected, asked, found }
    }

    /// Checks every invariant of the tree and of its pool ([`Pages::check`]). It walks over everything, for tests and
    /// debug builds, while no other thread uses the pool.
    ///
    /// # Errors
    ///
    /// [`CacheError::Broken`] says what does not hold.
    pub fn check(&self) -> Result<(), CacheError> {
        self.tree().check()
    }
}

#[cfg(test)]
mod tests;
