//! Whether every page belongs to someone.

use attn_cache::{CacheError, RELEASED};

use super::Engine;
use crate::model::Model;

impl<M: Model> Engine<M> {
    /// Checks the pages, the prefix tree, and that nothing but the tree and the sequences that run refers to a page. It
    /// walks over all pages, for tests and debug builds, between two steps.
    ///
    /// # Errors
    ///
    /// [`CacheError::Broken`] says what does not hold.
    pub fn check(&self) -> Result<(), CacheError> {
        self.prefix.check()?;
        let pages = &self.limits.pages;
        let mut holders = vec![0usize; pages.count()];
        for choice in self.running.iter().chain(self.waiting.iter()) {
            for &page in choice.sequence.page_ids().iter().filter(|&&page| page != RELEASED) {
                holders[page as usize] += 1;
            }
        }
        let of_tree = |(page, &holders): (usize, &usize)| (page, pages.refs(page as i32) as i64 - holders as i64);
        let rest: Vec<_> = holders.iter().enumerate().map(of_tree).collect();
        if let Some((page, refs)) = rest.iter().find(|(_, refs)| !(0..=1).contains(refs)) {
            return Err(CacheError::Broken(format!("page {page} has {refs} references that no sequence has")));
        }
        let (held, cached) = (rest.iter().filter(|(_, refs)| *refs == 1).count(), self.prefix.stats().tokens);
        if held * pages.page_size() != cached {
            return Err(CacheError::Broken(format!(
                "{held} pages are held beside sequences; {cached} tokens are cached"
            )));
        }
        Ok(())
    }

    pub(super) fn check_in_debug_builds(&self) {
        if cfg!(debug_assertions)
            && let Err(error) = self.check()
        {
            panic!("{error}");
        }
    }
}
