//! A pool: which pages are free.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::ref_counts::RefCounts;
use crate::{CacheError, OutOfPages, PageId};

/// The pages of one KV cache.
#[derive(Debug)]
pub(crate) struct Pool {
    page_size: usize,
    counts: RefCounts,
    /// Free pages; the last one is given out first, so pages that are still in the L2 cache are used again soon.
    free: Mutex<Vec<PageId>>,
}

impl Pool {
    pub(crate) fn new(count: usize, page_size: usize) -> Result<Self, CacheError> {
        let fits = |n: usize| i32::try_from(n).ok();
        let (Some(pages), Some(1..)) = (fits(count), fits(page_size)) else {
            return Err(CacheError::PoolShape { count, page_size });
        };
        let free = Mutex::new((0..pages).rev().collect());
        Ok(Pool { page_size, counts: RefCounts::new(count), free })
    }

    pub(crate) fn page_size(&self) -> usize {
        self.page_size
    }

    pub(crate) fn counts(&self) -> &RefCounts {
        &self.counts
    }

    fn free_list(&self) -> MutexGuard<'_, Vec<PageId>> {
        // every change of the list is one call that does not panic halfway
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn free(&self) -> usize {
        self.free_list().len()
    }

    /// Takes `need` free pages, each with one reference.
    pub(crate) fn take(&self, need: usize) -> Result<Vec<PageId>, OutOfPages> {
        let mut free = self.free_list();
        let Some(kept) = free.len().checked_sub(need) else {
            return Err(OutOfPages { need, free: free.len(), evictable: self.counts.evictable() });
        };
        let mut taken = free.split_off(kept);
        taken.reverse();
        taken.iter().for_each(|&page| self.counts.first(page as usize));
        Ok(taken)
    }

    /// Takes a reference away. The page is free when it was the last one.
    pub(crate) fn drop_ref(&self, page: PageId) {
        if self.counts.remove(page as usize) {
            self.free_list().push(page);
        }
    }

    /// Checks that exactly the pages without references are in the free list, once each.
    pub(crate) fn check(&self) -> Result<(), CacheError> {
        let broken = |what: String| Err(CacheError::Broken(what));
        let free = self.free_list();
        let mut listed = vec![false; self.counts.pages()];
        for &page in free.iter() {
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
        }
        let (counted, gauge) = (self.counts.count_evictable(), self.counts.evictable());
        if counted == gauge { Ok(()) } else { broken(format!("{counted} pages are evictable, {gauge} are counted")) }
    }
}
