//! Page copies that copy-on-write asks for and no step has made yet.

use hashbrown::HashMap;

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
    pub(super) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// The page that holds what `page` will hold once the copies are made.
    pub(super) fn source_of(&self, page: PageId) -> PageId {
        self.by_target.get(&page).map_or(page, |copy| copy.from)
    }

    /// References that the copies themselves have to a page.
    pub(super) fn refs(&self, page: PageId) -> usize {
        let claimed = self.by_target.get(&page).is_some_and(|copy| copy.step.is_some());
        self.readers.get(&page).copied().unwrap_or(0) + usize::from(claimed)
    }

    /// Adds a copy, which refers to its source.
    pub(super) fn add(&mut self, from: PageId, to: PageId) {
        let number = self.number();
        self.by_target.insert(to, PageCopy { from, number, step: None });
        *self.readers.entry(from).or_insert(0) += 1;
    }

    /// Gives the copies that `takes` names by their targets, and that no step has, to a step. Lists all of the step.
    pub(super) fn claim(&mut self, step: u64, takes: impl Fn(PageId) -> bool, pairs: &mut Vec<[PageId; 2]>) {
        pairs.clear();
        for (&to, copy) in &mut self.by_target {
            if copy.step.is_none() && takes(to) {
                copy.step = Some(step);
            }
            if copy.step == Some(step) {
                pairs.push([copy.from, to]);
            }
        }
        pairs.sort_unstable_by_key(|[_, to]| self.by_target.get(to).map(|copy| copy.number));
    }

    /// Takes the copies of a step from it, and returns their targets, to which it no longer refers.
    pub(super) fn unclaim(&mut self, step: u64) -> Vec<PageId> {
        let of_step = self.by_target.iter_mut().filter(|(_, copy)| copy.step == Some(step));
        let unclaim = |(&to, copy): (&PageId, &mut PageCopy)| {
            copy.step = None;
            to
        };
        of_step.map(unclaim).collect()
    }

    /// Removes a copy, and returns its source.
    pub(super) fn remove(&mut self, to: PageId) -> Option<PageId> {
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
    pub(super) fn remove_of(&mut self, step: u64, goes: impl Fn(PageId) -> bool) -> Vec<PageId> {
        let of_step = |(&to, copy): (&PageId, &PageCopy)| (copy.step == Some(step) && goes(to)).then_some(to);
        let targets: Vec<PageId> = self.by_target.iter().filter_map(of_step).collect();
        targets.into_iter().flat_map(|to| [Some(to), self.remove(to)]).flatten().collect()
    }
}
