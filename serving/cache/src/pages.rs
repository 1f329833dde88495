//! The pages of a KV cache: allocation and references.

mod copies;
mod page_ref;
mod page_refs;
mod pool;
mod pool_copies;
mod ref_counts;
mod step_copies;

use std::sync::Arc;

pub use page_ref::PageRef;
pub use page_refs::PageRefs;
pub(crate) use pool::Pool;
pub(crate) use step_copies::StepCopies;

use crate::{CacheError, OutOfPages, PageId};

/// A pool of pages, counted by references. A clone is another handle to the same pool.
///
/// ```
/// use attn_cache::Pages;
///
/// let pages = Pages::new(4, 16)?;
/// let held = pages.alloc(3)?;
/// let refused = pages.alloc(2).expect_err("one page is left");
/// assert_eq!((refused.need, refused.free, refused.evictable), (2, 1, 0));
/// drop(held);
/// assert_eq!(pages.stats().free, 4);
/// # Ok::<(), attn_cache::CacheError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Pages {
    pool: Arc<Pool>,
}

/// Counts of a pool, in pages: `free + used = total`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageStats {
    /// All pages.
    pub total: usize,
    /// Pages without references.
    pub free: usize,
    /// Pages with references: of sequences, of the prefix tree, and the sources of copies that are not made yet.
    pub used: usize,
    /// Pages among the used ones that eviction from the prefix tree would make free.
    pub evictable: usize,
}

impl Pages {
    /// A pool of `count` pages of `page_size` tokens.
    ///
    /// # Errors
    ///
    /// [`CacheError::PoolShape`] for a page size of 0, or numbers beyond `i32`; [`CacheError::Capacity`] for more than
    /// 2^28 pages, whose counts would take more than 1 GiB of memory.
    pub fn new(count: usize, page_size: usize) -> Result<Self, CacheError> {
        Ok(Pages { pool: Arc::new(Pool::new(count, page_size)?) })
    }

    /// Takes `n` free pages.
    ///
    /// # Errors
    ///
    /// [`OutOfPages`] if fewer are free. None is taken then.
    pub fn alloc(&self, n: usize) -> Result<Vec<PageRef>, OutOfPages> {
        let taken = self.pool.take(n)?;
        Ok(taken.into_iter().map(|page| PageRef::counted(&self.pool, page)).collect())
    }

    /// Tokens per page.
    #[must_use]
    pub fn page_size(&self) -> usize {
        self.pool.page_size()
    }

    /// Number of pages.
    #[must_use]
    pub fn count(&self) -> usize {
        self.pool.counts().pages()
    }

    /// The counts now.
    #[must_use]
    pub fn stats(&self) -> PageStats {
        let (total, free) = (self.count(), self.pool.free());
        PageStats { total, free, used: total - free, evictable: self.pool.counts().evictable() }
    }

    /// References to a page; 0 for a free page, and for a number outside of the pool.
    #[must_use]
    pub fn refs(&self, page: PageId) -> usize {
        let inside = usize::try_from(page).ok().filter(|&page| page < self.count());
        inside.map_or(0, |page| self.pool.counts().refs(page))
    }

    /// Checks that exactly the pages without references are free, and that the count of evictable pages is right. It
    /// walks over all pages, for tests and debug builds, while no other thread uses the pool.
    ///
    /// # Errors
    ///
    /// [`CacheError::Broken`] says what does not hold.
    pub fn check(&self) -> Result<(), CacheError> {
        self.pool.check()
    }

    /// Whether both are handles to one pool.
    #[must_use]
    pub fn is_same_pool(&self, other: &Pages) -> bool {
        Arc::ptr_eq(&self.pool, &other.pool)
    }

    /// Whether a sequence that holds `page` once must copy it before it writes: someone else refers to it. Copies that
    /// are not made yet do not count: they are made before anything is written.
    pub(crate) fn is_shared(&self, page: &PageRef) -> bool {
        let refs = page.refs();
        refs > 1 && refs.saturating_sub(self.pool.copy_refs(page.id())) > 1
    }

    pub(crate) fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }
}

#[cfg(test)]
mod tests;
