//! Pages for new tokens: free ones, then evicted ones.

use attn_cache::{CacheError, PageId, Pages, Prefix, RELEASED, Sequence};

use super::{choice::Choice, limits::RequestLimits};

/// The pages of an engine, and the prefix tree, which gives up its own.
#[derive(Debug)]
pub(super) struct Allocation {
    pages: Pages,
    pub(super) prefix: Prefix,
    /// Pages that endless texts are still to get.
    reserved: usize,
    /// Whether the tree takes the pages of texts that end.
    reuse_prefixes: bool,
}

impl Allocation {
    pub(super) fn new(pages: &Pages, reuse_prefixes: bool) -> Self {
        Allocation { pages: pages.clone(), prefix: Prefix::new(pages), reserved: 0, reuse_prefixes }
    }

    /// Pages that are free or can be evicted, without those that endless texts are still to get.
    pub(super) fn available(&self) -> usize {
        let stats = self.pages.stats();
        (stats.free + stats.evictable).saturating_sub(self.reserved)
    }

    /// Counts the pages that endless texts may still take. An endless text keeps its keys nowhere else, so it cannot be
    /// preempted: it has all pages that it will ever need from the start.
    pub(super) fn reserve(&mut self, running: &[Choice], limits: &RequestLimits) {
        let pages = &self.pages;
        let own = |sequence: &Sequence| {
            let is_own = |&&page: &&PageId| pages.refs(page) == 1;
            sequence.page_ids().iter().filter(is_own).count()
        };
        let rest = |choice: &Choice| {
            choice.job.request.endless.map_or(0, |endless| {
                let most = limits.pages_of_endless(endless);
                // pages of a prompt are shared once its choices begin, and each replaces them by its own
                if choice.forks > 0 { (1 + choice.forks) * most } else { most.saturating_sub(own(&choice.sequence)) }
            })
        };
        self.reserved = running.iter().map(rest).sum();
    }

    /// Makes pages free for new tokens of a choice if no other has to give up its own.
    pub(super) fn has_room(&self, choice: &Choice, tokens: usize) -> bool {
        // a page that was shared with a choice that was preempted needs no copy
        let need = choice.sequence.pages_needed(tokens);
        if need == 0 {
            return true;
        }
        let reserved = if choice.is_endless() { 0 } else { self.reserved };
        let stats = self.pages.stats();
        if stats.free + stats.evictable < need + reserved {
            return false;
        }
        stats.free >= need || self.prefix.reserve(need).is_ok()
    }

    /// Appends the new tokens of a choice, which has room for them.
    pub(super) fn append(&mut self, choice: &mut Choice, tokens: usize) -> bool {
        let need = choice.sequence.pages_needed(tokens);
        if let Err(error) = choice.sequence.append(tokens) {
            // a bug: there was room
            tracing::error!(%error, request = choice.job.id.0, "a sequence cannot grow");
            return false;
        }
        choice.scheduled = tokens;
        if choice.is_endless() {
            self.reserved = self.reserved.saturating_sub(need);
        }
        true
    }

    /// Gives the pages of a choice to the prefix tree, but for those that are not known to be finite.
    pub(super) fn release(&self, choice: &mut Choice) {
        if self.reuse_prefixes {
            choice.cache(&self.prefix);
        }
        choice.sequence = Sequence::new(&self.pages);
        (choice.finite, choice.cached) = (0, false);
    }

    /// Checks the pages, the prefix tree, and that nothing but the tree and the sequences refers to a page.
    pub(super) fn check<'a>(&self, sequences: impl Iterator<Item = &'a Sequence>) -> Result<(), CacheError> {
        self.prefix.check()?;
        let mut holders = vec![0usize; self.pages.count()];
        for sequence in sequences {
            for &page in sequence.page_ids().iter().filter(|&&page| page != RELEASED) {
                holders[page as usize] += 1;
            }
        }
        let of_tree = |(page, &holders): (usize, &usize)| (page, self.pages.refs(page as i32) as i64 - holders as i64);
        let rest: Vec<_> = holders.iter().enumerate().map(of_tree).collect();
        if let Some((page, refs)) = rest.iter().find(|(_, refs)| !(0..=1).contains(refs)) {
            return Err(CacheError::Broken(format!("page {page} has {refs} references that no sequence has")));
        }
        let (held, cached) = (rest.iter().filter(|(_, refs)| *refs == 1).count(), self.prefix.stats().tokens);
        if held * self.pages.page_size() != cached {
            return Err(CacheError::Broken(format!(
                "{held} pages are held beside sequences; {cached} tokens are cached"
            )));
        }
        Ok(())
    }
}
