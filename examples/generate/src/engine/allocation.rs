//! Pages for new tokens: free ones, then evicted ones, then those of the newest choice.

use attn_cache::{PageId, Sequence};

use super::{Engine, choice::Choice};
use crate::model::Model;

impl<M: Model> Engine<M> {
    /// Pages that are free or can be evicted, without those that endless texts are still to get.
    pub(super) fn available(&self) -> usize {
        let stats = self.limits.pages.stats();
        (stats.free + stats.evictable).saturating_sub(self.reserved)
    }

    /// Pages that endless texts may still take. An endless text keeps its keys nowhere else, so it cannot be preempted:
    /// it has all pages that it will ever need from the start.
    pub(super) fn reserved_pages(&self) -> usize {
        let pages = &self.limits.pages;
        let own = |sequence: &Sequence| {
            let is_own = |&&page: &&PageId| pages.refs(page) == 1;
            sequence.page_ids().iter().filter(is_own).count()
        };
        let rest = |choice: &Choice| {
            choice.job.request.endless.map_or(0, |endless| {
                let most = self.limits.pages_of_endless(endless);
                // pages of a prompt are shared once its choices begin, and each replaces them by its own
                if choice.forks > 0 { (1 + choice.forks) * most } else { most.saturating_sub(own(&choice.sequence)) }
            })
        };
        self.running.iter().map(rest).sum()
    }

    /// Makes pages free for new tokens of a choice: it evicts, and then preempts choices from the newest on. A choice
    /// that is in the step already, or older, keeps its pages. It is false if there are too few, and then the choice
    /// itself may be preempted.
    pub(super) fn make_room(&mut self, at: usize, tokens: usize) -> bool {
        loop {
            if self.has_room(at, tokens) {
                return true;
            }
            let may_go = |choice: &Choice| choice.scheduled == 0 && !choice.is_endless();
            let Some(newest) = self.running.iter().rposition(may_go).filter(|&newest| newest > at) else {
                return false;
            };
            self.preempt(newest);
        }
    }

    /// Makes pages free for new tokens of a choice if no other has to give up its own.
    pub(super) fn has_room(&mut self, at: usize, tokens: usize) -> bool {
        let choice = &self.running[at];
        // a page that was shared with a choice that was preempted needs no copy
        let need = choice.sequence.pages_needed(tokens);
        if need == 0 {
            return true;
        }
        let reserved = if choice.is_endless() { 0 } else { self.reserved };
        let stats = self.limits.pages.stats();
        if stats.free + stats.evictable < need + reserved {
            return false;
        }
        stats.free >= need || self.prefix.reserve(need).is_ok()
    }

    /// Appends the new tokens of a choice, which has room for them.
    pub(super) fn append(&mut self, at: usize, tokens: usize) -> bool {
        let choice = &mut self.running[at];
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

    /// Gives the pages of a choice back. It is computed again later; what stays in the prefix tree is found then.
    pub(super) fn preempt(&mut self, at: usize) {
        let mut choice = self.running.remove(at);
        choice.withdraw_guesses();
        self.release(&mut choice);
        self.waiting.push(choice);
        self.stats.preemptions += 1;
        self.has_preempted = true;
    }

    /// Gives the pages of a choice to the prefix tree, but for those that are not known to be finite.
    pub(super) fn release(&self, choice: &mut Choice) {
        if self.config.reuse_prefixes {
            choice.cache(&self.prefix);
        }
        choice.sequence = Sequence::new(&self.limits.pages);
        (choice.finite, choice.cached) = (0, false);
    }
}
