//! Page copies that copy-on-write asks for and no step has made yet.

use std::sync::Arc;

use hashbrown::HashMap;

use super::{page_ref::PageRef, pool::Pool};
use crate::PageId;

/// A copy of a page. It refers to its source, and to its target once a step has it: neither is given to someone else
/// before the copy is made. Before that the target is held by those who will read it, and goes with them.
#[derive(Debug)]
struct PageCopy {
    from: PageId,
    /// Copies are made in this order.
    number: u64,
    /// The step that makes it; `None` before one is built.
    step: Option<u64>,
}

/// The copies by their targets. No page is the source of one and the target of another, so a kernel makes all of them
/// at once.
#[derive(Debug, Default)]
pub(crate) struct PendingCopies {
    by_target: HashMap<PageId, PageCopy>,
    /// How many copies read a page.
    readers: HashMap<PageId, usize>,
    /// Copies and steps are numbered.
    next: u64,
}

impl PendingCopies {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// The page that holds what `page` will hold once the copies are made.
    fn source_of(&self, page: PageId) -> PageId {
        self.by_target.get(&page).map_or(page, |copy| copy.from)
    }

    /// References that the copies themselves have to a page.
    fn refs(&self, page: PageId) -> usize {
        let claimed = self.by_target.get(&page).is_some_and(|copy| copy.step.is_some());
        self.readers.get(&page).copied().unwrap_or(0) + usize::from(claimed)
    }

    /// Removes a copy, and returns its source.
    fn remove(&mut self, to: PageId) -> Option<PageId> {
        let PageCopy { from, .. } = self.by_target.remove(&to)?;
        if let Some(readers) = self.readers.get_mut(&from) {
            *readers -= 1;
            if *readers == 0 {
                self.readers.remove(&from);
            }
        }
        Some(from)
    }

    /// Removes the copies of a step that `goes` names by their targets, and returns the pages that they referred to.
    fn remove_of(&mut self, step: u64, goes: impl Fn(PageId) -> bool) -> Vec<PageId> {
        let of_step = |(&to, copy): (&PageId, &PageCopy)| (copy.step == Some(step) && goes(to)).then_some(to);
        let targets: Vec<PageId> = self.by_target.iter().filter_map(of_step).collect();
        targets.into_iter().flat_map(|to| [Some(to), self.remove(to)]).flatten().collect()
    }
}

// no reference is dropped while the copies are locked: a page that becomes free may be a target
impl Pool {
    /// Asks for a copy. A source that is itself a target has nothing but what its own source has: tokens are written by
    /// steps, and a step makes all copies first.
    pub(crate) fn push_copy(&self, from: &PageRef, to: &PageRef) {
        let mut copies = self.copies();
        let (from, to) = (copies.source_of(from.id()), to.id());
        self.counts().add(from as usize);
        self.counts().set_copy_target(to as usize, true);
        let number = copies.number();
        copies.by_target.insert(to, PageCopy { from, number, step: None });
        *copies.readers.entry(from).or_insert(0) += 1;
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

    /// A page is free: nothing will read what a copy was to bring. Returns the source, which the copy referred to.
    pub(super) fn drop_copy_to(&self, page: PageId) -> Option<PageId> {
        if !self.counts().is_copy_target(page as usize) {
            return None;
        }
        self.counts().set_copy_target(page as usize, false);
        self.copies().remove(page)
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
        pairs.clear();
        for (&to, copy) in &mut copies.by_target {
            if copy.step.is_none() && self.counts().add_unless_free(to as usize) {
                self.counts().set_copy_target(to as usize, false);
                copy.step = Some(step);
            }
            if copy.step == Some(step) {
                pairs.push([copy.from, to]);
            }
        }
        let number = |to: PageId| copies.by_target.get(&to).map(|copy| copy.number);
        pairs.sort_unstable_by_key(|&[_, to]| number(to));
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
        let mut targets = Vec::new();
        for (&to, copy) in copies.by_target.iter_mut().filter(|(_, copy)| copy.step == Some(step)) {
            copy.step = None;
            self.counts().set_copy_target(to as usize, true);
            targets.push(to);
        }
        drop(copies);
        targets.into_iter().for_each(|page| self.drop_ref(page));
    }
}
