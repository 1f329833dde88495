//! A pool: which pages are free.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{copies::PendingCopies, ref_counts::RefCounts};
use crate::{CacheError, OutOfPages, PageId};

/// The most pages of a pool. The state of a page is four bytes, so that of a pool takes at most 1 GiB.
const MAX_PAGES: usize = 1 << 28;

/// The pages of one KV cache.
#[derive(Debug)]
pub(crate) struct Pool {
    page_size: usize,
    counts: RefCounts,
    free: Mutex<FreePages>,
    copies: Mutex<PendingCopies>,
}

/// The free pages.
#[derive(Debug)]
struct FreePages {
    /// Pages that were used before; the last one is given out first, so pages that are still in the L2 cache are used
    /// again soon.
    used: Vec<PageId>,
    /// Pages that were never given out.
    fresh: Range<PageId>,
}

impl FreePages {
    fn len(&self) -> usize {
        self.used.len() + self.fresh.len()
    }

    /// Takes pages that there are, in the order in which they are given out.
    fn take(&mut self, need: usize) -> Vec<PageId> {
        let kept = self.used.len().saturating_sub(need);
        let mut taken = self.used.split_off(kept);
        taken.reverse();
        let rest = need - taken.len();
        taken.extend(self.fresh.by_ref().take(rest));
        taken
    }
}

impl Pool {
    pub(crate) fn new(count: usize, page_size: usize) -> Result<Self, CacheError> {
        let fits = |n: usize| i32::try_from(n).ok();
        let (Some(pages), Some(1..)) = (fits(count), fits(page_size)) else {
            return Err(CacheError::PoolShape { count, page_size });
        };
        if count > MAX_PAGES {
            return Err(CacheError::Capacity { what: "pages in a pool", count, capacity: MAX_PAGES });
        }
        let free = Mutex::new(FreePages { used: Vec::new(), fresh: 0..pages });
        Ok(Pool { page_size, counts: RefCounts::new(count), free, copies: Mutex::default() })
    }

    pub(crate) fn page_size(&self) -> usize {
        self.page_size
    }

    pub(crate) fn counts(&self) -> &RefCounts {
        &self.counts
    }

    fn free_pages(&self) -> MutexGuard<'_, FreePages> {
        // every change of the list is one call that does not panic halfway
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn copies(&self) -> MutexGuard<'_, PendingCopies> {
        self.copies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn free(&self) -> usize {
        self.free_pages().len()
    }

    /// Takes `need` free pages, each with one reference.
    pub(crate) fn take(&self, need: usize) -> Result<Vec<PageId>, OutOfPages> {
        let mut free = self.free_pages();
        if need > free.len() {
            return Err(OutOfPages { need, free: free.len(), evictable: self.counts.evictable() });
        }
        let taken = free.take(need);
        taken.iter().for_each(|&page| self.counts.first(page as usize));
        Ok(taken)
    }

    /// A page is free: nothing will read what a copy was to bring. Returns the source, which the copy referred to.
    fn drop_copy_to(&self, page: PageId) -> Option<PageId> {
        if !self.counts.is_copy_target(page as usize) {
            return None;
        }
        self.counts.set_copy_target(page as usize, false);
        self.copies().remove(page)
    }

    /// Takes a reference away. The page is free when it was the last one.
    pub(crate) fn drop_ref(&self, page: PageId) {
        if self.counts.remove(page as usize) {
            let source = self.drop_copy_to(page);
            self.free_pages().used.push(page);
            if let Some(source) = source {
                self.drop_ref(source);
            }
        }
    }

    /// Checks that exactly the pages without references are in the free list, once each.
    pub(crate) fn check(&self) -> Result<(), CacheError> {
        let broken = |what: String| Err(CacheError::Broken(what));
        let free = self.free_pages();
        let mut listed = vec![false; self.counts.pages()];
        for page in free.used.iter().copied().chain(free.fresh.clone()) {
            if std::mem::replace(&mut listed[page as usize], true) {
                return broken(format!("page {page} is twice in the free list"));
            }
        }
        for (page, listed) in listed.into_iter().enumerate() {
            let refs = self.counts.refs(page);
            if listed != (refs == 0) {
                return broken(format!("page {page} has {refs} references; in the free list: {listed}"));
            }
            if refs == 0 && self.counts.is_in_tree(page) {
                return broken(format!("page {page} is free and in the tree"));
            }
            if refs == 0 && self.counts.is_copy_target(page) {
                return broken(format!("page {page} is free and waits for a copy"));
            }
        }
        let (counted, gauge) = (self.counts.count_evictable(), self.counts.evictable());
        if counted == gauge { Ok(()) } else { broken(format!("{counted} pages are evictable, {gauge} are counted")) }
    }
}
