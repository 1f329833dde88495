//! The copies that one step makes.

use std::sync::Arc;

use super::{Pages, pool::Pool};
use crate::PageId;

/// Copies that a step has claimed: no other step over the pool makes them. They stay pending until they are made.
#[derive(Debug)]
pub(crate) struct StepCopies {
    pool: Arc<Pool>,
    step: u64,
    pairs: Vec<[PageId; 2]>,
}

impl StepCopies {
    pub(crate) fn new(pages: &Pages, capacity: usize) -> Self {
        let pool = Arc::clone(pages.pool());
        StepCopies { step: pool.number_of_step(), pool, pairs: Vec::with_capacity(capacity) }
    }

    pub(crate) fn is_of(&self, pages: &Pages) -> bool {
        Arc::ptr_eq(&self.pool, pages.pool())
    }

    pub(crate) fn claim(&mut self) {
        self.pool.claim_copies(self.step, &mut self.pairs);
    }

    pub(crate) fn pairs(&self) -> &[[PageId; 2]] {
        &self.pairs
    }

    pub(crate) fn finish(&mut self) {
        self.pool.finish_copies(self.step);
        self.pairs.clear();
    }
}

impl Drop for StepCopies {
    fn drop(&mut self) {
        self.pool.unclaim_copies(self.step);
    }
}
