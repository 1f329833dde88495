//! Sequences that share pages: forks, and the prefix tree.

use super::{Sequence, next_version};
use crate::{CacheError, Namespace, PageRef, Prefix, Remap, Token};

impl Sequence {
    /// A second sequence with the same tokens. Both share all pages; the first that appends to a last page that is not
    /// full gets a copy of it.
    ///
    /// # Errors
    ///
    /// [`CacheError::Unwritten`]: a copy of the last page would miss tokens that are not written. Also
    /// [`CacheError::SwappedOut`].
    pub fn fork(&self) -> Result<Sequence, CacheError> {
        self.check_written()?;
        Ok(Sequence {
            pool: self.pool.clone(),
            pages: self.pages.clone(),
            ids: self.ids.clone(),
            lock: self.lock.clone(),
            version: next_version(),
            ..*self
        })
    }

    /// Caches the whole pages of the first `tokens.len()` tokens, which are `tokens`. Where the tree has a page with
    /// the same tokens, the sequence takes that, and drops its own. It keeps the lock. Returns the tokens that were
    /// cached already.
    ///
    /// Pages from the first released one on are not cached. Of tokens that the sequence has found or cached before,
    /// only the last page is compared again, so a text that is cached page by page takes time by its length.
    ///
    /// # Errors
    ///
    /// [`CacheError::TooManyTokens`] for more tokens than are written; [`CacheError::Compacted`] after
    /// [`Sequence::compact`]; otherwise as [`Prefix::insert`]. Also [`CacheError::SwappedOut`].
    pub fn cache(&mut self, prefix: &Prefix, namespace: &Namespace, tokens: &[Token]) -> Result<usize, CacheError> {
        self.check_on_device()?;
        if tokens.len() > self.written {
            return Err(CacheError::TooManyTokens { tokens: tokens.len(), len: self.written });
        }
        if let Some(gone) = self.gone.filter(|gone| gone.moved) {
            return Err(CacheError::Compacted { position: gone.first });
        }
        let page_size = self.pool.page_size();
        let whole = tokens.len().min(self.in_place()) / page_size;
        let tokens = &tokens[..whole * page_size];
        let held = |from: usize| -> Vec<PageRef> { self.pages[from..whole].iter().flatten().cloned().collect() };
        if 0 < self.cached
            && self.cached <= tokens.len()
            && let new = held(self.cached / page_size)
            && let Some(lock) = &mut self.lock
            && let last = self.ids[self.cached / page_size - 1]
            && let Some(found) = prefix.insert_after(lock, namespace, tokens, last, &new)?
        {
            self.take_pages(found.remaps, tokens.len());
            return Ok(found.reused);
        }
        let inserted = prefix.insert(namespace, tokens, &held(0))?;
        self.take_pages(inserted.remaps, tokens.len());
        self.lock = Some(inserted.lock);
        Ok(inserted.reused)
    }

    /// Takes the pages of the tree, which has the first `cached` tokens now.
    fn take_pages(&mut self, remaps: Vec<Remap>, cached: usize) {
        remaps.into_iter().for_each(|remap| self.replace_page(remap.index, remap.page));
        self.cached = cached;
    }
}
