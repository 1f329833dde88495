//! The copies that one step makes.

use super::Pages;
use crate::PageId;

/// Copies that a step has claimed: no other step over the pool makes them. They stay pending until they are made.
#[derive(Debug)]
pub(crate) struct StepCopies {
    pool: Pages,
    claims: Vec<u64>,
    pairs: Vec<[PageId; 2]>,
}

impl StepCopies {
    pub(crate) fn new(pool: &Pages, capacity: usize) -> Self {
        StepCopies { pool: pool.clone(), claims: Vec::with_capacity(capacity), pairs: Vec::with_capacity(capacity) }
    }

    pub(crate) fn claim(&mut self) {
        self.pool.copies().claim(&mut self.claims, &mut self.pairs);
    }

    pub(crate) fn pairs(&self) -> &[[PageId; 2]] {
        &self.pairs
    }

    pub(crate) fn finish(&mut self) {
        self.pool.copies().finish(&self.claims);
        self.claims.clear();
        self.pairs.clear();
    }
}

impl Drop for StepCopies {
    fn drop(&mut self) {
        self.pool.copies().unclaim(&self.claims);
    }
}
