//! Sequences that share pages: forks, and the prefix tree.

use super::Sequence;
use crate::{CacheError, Namespace, PageRef, Prefix, Token};

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
            ..*self
        })
    }

    /// Caches the whole pages of the first `tokens.len()` tokens, which are `tokens`. Where the tree has a page with
    /// the same tokens, the sequence takes that, and drops its own. It keeps the lock. Returns the tokens that were
    /// cached already.
    ///
    /// Pages from the first released one on are not cached.
    ///
    /// # Errors
    ///
    /// [`CacheError::TooManyTokens`] for more tokens than are written; otherwise as [`Prefix::insert`]. Also
    /// [`CacheError::SwappedOut`].
    pub fn cache(&mut self, prefix: &Prefix, namespace: &Namespace, tokens: &[Token]) -> Result<usize, CacheError> {
        self.check_on_device()?;
        if tokens.len() > self.written {
            return Err(CacheError::TooManyTokens { tokens: tokens.len(), len: self.written });
        }
        let page_size = self.pool.page_size();
        let whole = self.pages.iter().take(tokens.len() / page_size);
        let pages: Vec<PageRef> = whole.map_while(Clone::clone).collect();
        let inserted = prefix.insert(namespace, &tokens[..pages.len() * page_size], &pages)?;
        for remap in inserted.remaps {
            self.replace_page(remap.index, remap.page);
        }
        self.lock = Some(inserted.lock);
        Ok(inserted.reused)
    }
}
