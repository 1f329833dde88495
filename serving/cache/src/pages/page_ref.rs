//! A reference to a page.

use std::{fmt, sync::Arc};

use super::pool::Pool;
use crate::PageId;

/// A reference to a page. A clone adds one reference, a drop takes one away, and a page without references is free.
pub struct PageRef {
    pool: Arc<Pool>,
    page: PageId,
}

impl PageRef {
    /// Takes over a reference that is counted already.
    pub(super) fn counted(pool: &Arc<Pool>, page: PageId) -> Self {
        PageRef { pool: Arc::clone(pool), page }
    }

    /// The number of the page in its pool.
    #[must_use]
    pub fn id(&self) -> PageId {
        self.page
    }

    /// References to the page, this one included.
    #[must_use]
    pub fn refs(&self) -> usize {
        self.pool.counts().refs(self.page as usize)
    }

    /// One more reference to a page that keeps one meanwhile.
    pub(crate) fn another(pool: &Arc<Pool>, page: PageId) -> Self {
        pool.counts().add(page as usize);
        PageRef::counted(pool, page)
    }

    pub(crate) fn is_of(&self, pool: &Arc<Pool>) -> bool {
        Arc::ptr_eq(&self.pool, pool)
    }
}

impl Clone for PageRef {
    fn clone(&self) -> Self {
        PageRef::another(&self.pool, self.page)
    }
}

impl Drop for PageRef {
    fn drop(&mut self) {
        self.pool.drop_ref(self.page);
    }
}

impl fmt::Debug for PageRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PageRef({})", self.page)
    }
}
