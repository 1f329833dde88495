//! The pending copies of a pool, and the references that they have.

use std::sync::Arc;

use super::{page_ref::PageRef, pool::Pool};
use crate::PageId;

// no reference is dropped while the copies are locked: a page that becomes free may be a target
impl Pool {
    /// Asks for a copy. A source that is itself a target has nothing but what its own source has: tokens are written by
    /// steps, and a step makes all copies first.
    pub(crate) fn push_copy(&self, from: &PageRef, to: &PageRef) {
        let mut copies = self.copies();
        let (from, to) = (copies.source_of(from.id()), to.id());
        self.counts().add(from as usize);
        self.counts().set_copy_target(to as usize, true);
        copies.add(from, to);
    }

    /// The page that holds what `page` will hold once the copies are made.
    pub(crate) fn copy_source(self: &Arc<Self>, page: &PageRef) -> PageRef {
        // the lock keeps the copy, and the copy its source
        let copies = self.copies();
        PageRef::another(self, copies.source_of(page.id()))
    }

    /// References that the copies themselves have to a page.
    pub(crate) fn copy_refs(&self, page: PageId) -> usize {
        self.copies().refs(page)
    }

    /// A number for a step, by which it claims copies.
    pub(super) fn number_of_step(&self) -> u64 {
        self.copies().number()
    }

    /// Gives all copies that no step has to one step, and lists those of the step. Copies of an earlier build of it
    /// whose target no one reads are dropped.
    pub(super) fn claim_copies(&self, step: u64, pairs: &mut Vec<[PageId; 2]>) {
        let mut copies = self.copies();
        let unread = copies.remove_of(step, |to| self.counts().refs(to as usize) == 1);
        let takes = |to: PageId| {
            let held = self.counts().add_unless_free(to as usize);
            if held {
                self.counts().set_copy_target(to as usize, false);
            }
            held
        };
        copies.claim(step, takes, pairs);
        drop(copies);
        unread.into_iter().for_each(|page| self.drop_ref(page));
    }

    /// The copies of a step are made.
    pub(super) fn finish_copies(&self, step: u64) {
        let made = self.copies().remove_of(step, |_| true);
        made.into_iter().for_each(|page| self.drop_ref(page));
    }

    /// A step was dropped before it was committed; another one makes its copies.
    pub(super) fn unclaim_copies(&self, step: u64) {
        let mut copies = self.copies();
        let targets = copies.unclaim(step);
        targets.iter().for_each(|&to| self.counts().set_copy_target(to as usize, true));
        drop(copies);
        targets.into_iter().for_each(|page| self.drop_ref(page));
    }
}
