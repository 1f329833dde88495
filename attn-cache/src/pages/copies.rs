//! Page copies that copy-on-write asks for and no step has made yet.

use super::page_ref::PageRef;
use crate::PageId;

/// A copy of a page. It holds both pages: neither is given to someone else before the copy is made.
#[derive(Debug)]
struct PageCopy {
    from: PageRef,
    to: PageRef,
    /// Its number, which says what step makes it; `None` before a step is built.
    claim: Option<u64>,
}

/// The copies in order. No page is the source of one and the target of another, so a kernel makes all of them at once.
#[derive(Debug, Default)]
pub(crate) struct PendingCopies {
    copies: Vec<PageCopy>,
    claims: u64,
}

impl PendingCopies {
    /// Adds a copy. A source that is itself a target has nothing but what its own source has: tokens are written by
    /// steps, and a step makes all copies first.
    pub(crate) fn push(&mut self, from: &PageRef, to: &PageRef) {
        let from = self.source_of(from).clone();
        self.copies.push(PageCopy { from, to: to.clone(), claim: None });
    }

    /// The page that holds what `page` will hold once the copies are made.
    pub(crate) fn source_of<'a>(&'a self, page: &'a PageRef) -> &'a PageRef {
        let target = self.copies.iter().find(|copy| copy.to.id() == page.id());
        target.map_or(page, |copy| &copy.from)
    }

    /// References that the copies themselves have to a page.
    pub(crate) fn refs(&self, page: PageId) -> usize {
        let of = |copy: &PageCopy| usize::from(copy.from.id() == page) + usize::from(copy.to.id() == page);
        self.copies.iter().map(of).sum()
    }

    /// Gives all copies that no step has to one step, which adds them to its own.
    pub(super) fn claim(&mut self, claims: &mut Vec<u64>, pairs: &mut Vec<[PageId; 2]>) {
        for copy in self.copies.iter_mut().filter(|copy| copy.claim.is_none()) {
            copy.claim = Some(self.claims);
            claims.push(self.claims);
            pairs.push([copy.from.id(), copy.to.id()]);
            self.claims += 1;
        }
    }

    /// The copies of a step are made.
    pub(super) fn finish(&mut self, claims: &[u64]) {
        self.copies.retain(|copy| copy.claim.is_none_or(|claim| !claims.contains(&claim)));
    }

    /// The step of some copies was dropped before it was committed; another one makes them.
    pub(super) fn unclaim(&mut self, claims: &[u64]) {
        let mine = |copy: &&mut PageCopy| copy.claim.is_some_and(|claim| claims.contains(&claim));
        self.copies.iter_mut().filter(mine).for_each(|copy| copy.claim = None);
    }
}
