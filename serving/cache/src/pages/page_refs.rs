//! References to several pages of one pool.

use std::{fmt, sync::Arc};

use super::{page_ref::PageRef, pool::Pool};
use crate::PageId;

/// References to pages of one pool, in order: as a vector of [`PageRef`], with less to count and to store.
pub struct PageRefs {
    pool: Arc<Pool>,
    ids: Vec<PageId>,
}

impl PageRefs {
    pub(crate) fn new(pool: &Arc<Pool>, capacity: usize) -> Self {
        PageRefs { pool: Arc::clone(pool), ids: Vec::with_capacity(capacity) }
    }

    /// References to the pages of a slice, all of which are of the pool.
    pub(crate) fn of(pool: &Arc<Pool>, pages: &[PageRef]) -> Self {
        let mut list = PageRefs::new(pool, pages.len());
        pages.iter().for_each(|page| list.add(page.id()));
        list
    }

    /// Adds one more reference to a page of the pool.
    pub(crate) fn push(&mut self, page: &PageRef) {
        self.add(page.id());
    }

    fn add(&mut self, page: PageId) {
        self.pool.counts().add(page as usize);
        self.ids.push(page);
    }

    /// The numbers of the pages.
    #[must_use]
    pub fn ids(&self) -> &[PageId] {
        &self.ids
    }

    /// How many pages there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there is no page.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// One more reference to a page of the list.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<PageRef> {
        self.ids.get(index).map(|&page| PageRef::another(&self.pool, page))
    }

    pub(crate) fn extend(&mut self, other: &PageRefs) {
        self.ids.reserve(other.len());
        other.ids.iter().for_each(|&page| self.add(page));
    }

    /// Moves the references of another list to the end of this one.
    pub(crate) fn append(&mut self, mut other: PageRefs) {
        self.ids.append(&mut other.ids);
    }

    pub(crate) fn is_of(&self, pool: &Arc<Pool>) -> bool {
        Arc::ptr_eq(&self.pool, pool)
    }

    pub(crate) fn truncate(&mut self, len: usize) {
        while self.ids.len() > len {
            self.pop();
        }
    }

    pub(crate) fn pop(&mut self) -> Option<PageRef> {
        self.ids.pop().map(|page| PageRef::counted(&self.pool, page))
    }

    pub(crate) fn split_off(&mut self, at: usize) -> PageRefs {
        PageRefs { pool: Arc::clone(&self.pool), ids: self.ids.split_off(at) }
    }
}

impl Clone for PageRefs {
    fn clone(&self) -> Self {
        let mut list = PageRefs::new(&self.pool, self.len());
        list.extend(self);
        list
    }
}

impl Drop for PageRefs {
    fn drop(&mut self) {
        self.ids.iter().for_each(|&page| self.pool.drop_ref(page));
    }
}

impl From<PageRefs> for Vec<PageRef> {
    fn from(mut list: PageRefs) -> Vec<PageRef> {
        // the references move to the elements
        let ids = std::mem::take(&mut list.ids);
        ids.into_iter().map(|page| PageRef::counted(&list.pool, page)).collect()
    }
}

impl fmt::Debug for PageRefs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.ids).finish()
    }
}
