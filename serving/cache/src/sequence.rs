//! Sequences: the tokens of one request, and the pages that hold their keys.

mod gone;
mod share;
mod slots;
mod swap;
mod window;

pub use slots::Slots;
pub use swap::Swap;

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use attn_core::batch::MAX_TOKENS;

use gone::Gone;

use crate::pages::{PageRef, Pages};
use crate::{CacheError, Hit, PageId, PrefixLock};

/// The pages of a growing text. It knows how many tokens there are, not which.
///
/// Tokens are *appended* when they have slots, and *written* when [`Sequence::commit`] says that the launches which
/// write their keys are enqueued. Between the two they are the new tokens of a step.
#[derive(Debug)]
pub struct Sequence {
    /// The pool on the device.
    pool: Pages,
    /// `None` for a released page.
    pages: Vec<Option<PageRef>>,
    /// The same as page numbers.
    ids: Vec<PageId>,
    len: usize,
    written: usize,
    /// Changes with the tokens; no two sequences have the same.
    version: u64,
    /// What is no longer there of the tokens.
    gone: Option<Gone>,
    /// Keeps the prefix that was found, or cached, from eviction.
    lock: Option<PrefixLock>,
    /// Tokens at the start whose pages are those that the tree has for them.
    cached: usize,
    swapped: bool,
}

fn next_version() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Sequence {
    /// A sequence of no tokens.
    #[must_use]
    pub fn new(pages: &Pages) -> Self {
        Sequence {
            pool: pages.clone(),
            pages: Vec::new(),
            ids: Vec::new(),
            len: 0,
            written: 0,
            version: next_version(),
            gone: None,
            lock: None,
            cached: 0,
            swapped: false,
        }
    }

    /// A sequence that begins with a cached prefix, which is written already. It keeps the lock. Of a hit whose fields
    /// were changed it takes the tokens that the pages hold.
    ///
    /// `pages` is the pool of the tree. A hit in another pool is dropped, and the sequence begins with no tokens: its
    /// pages are not there.
    #[must_use]
    pub fn with_prefix(pages: &Pages, mut hit: Hit) -> Self {
        let page_size = pages.page_size();
        if !hit.pages.is_of(pages.pool()) {
            return Sequence::new(pages);
        }
        let whole = hit.pages.len().min(hit.tokens / page_size);
        hit.pages.truncate(whole);
        let tokens = whole * page_size;
        Sequence {
            ids: hit.pages.ids().to_vec(),
            pages: Vec::from(hit.pages).into_iter().map(Some).collect(),
            len: tokens,
            written: tokens,
            lock: Some(hit.lock),
            cached: tokens,
            ..Sequence::new(pages)
        }
    }

    /// Tokens, the new ones included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no token.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Tokens that are appended and not yet written.
    #[must_use]
    pub fn new_tokens(&self) -> usize {
        self.len - self.written
    }

    /// The page of each `page_size` tokens; [`RELEASED`](crate::RELEASED) for released ones.
    #[must_use]
    pub fn page_ids(&self) -> &[PageId] {
        &self.ids
    }

    /// Pages that the sequence holds.
    #[must_use]
    pub fn held_pages(&self) -> usize {
        self.pages.iter().flatten().count()
    }

    /// The slots of tokens by position; positions past the end are left out. A released token has -1.
    #[must_use]
    pub fn slots(&self, positions: Range<usize>) -> Slots<'_> {
        Slots::new(&self.ids, self.pool.page_size(), positions.start..positions.end.min(self.len))
    }

    /// Free pages that [`append`](Sequence::append) of `n` tokens takes, that of a copy included.
    #[must_use]
    pub fn pages_needed(&self, n: usize) -> usize {
        let total = self.len.saturating_add(n).div_ceil(self.pool.page_size());
        total - self.pages.len() + usize::from(n > 0 && self.shared_last_page().is_some())
    }

    /// The last page, if the next token belongs there and someone else refers to the page.
    fn shared_last_page(&self) -> Option<&PageRef> {
        let partial = !self.len.is_multiple_of(self.pool.page_size());
        self.pages.last().filter(|_| partial)?.as_ref().filter(|page| self.pool.is_shared(page))
    }

    /// Adds `n` tokens, and returns their slots. If the last page is shared and not full, the sequence gets a page of
    /// its own, and the next step asks for the copy (copy-on-write).
    ///
    /// # Errors
    ///
    /// [`CacheError::OutOfPages`]; [`CacheError::SwappedOut`]; [`CacheError::Capacity`] for more tokens than a batch
    /// may have. Nothing has changed then.
    pub fn append(&mut self, n: usize) -> Result<Slots<'_>, CacheError> {
        self.check_on_device()?;
        let len = self.len.saturating_add(n);
        let capacity = MAX_TOKENS as usize;
        if len > capacity {
            return Err(CacheError::Capacity { what: "tokens in a sequence", count: len, capacity });
        }
        let mut taken = self.pool.alloc(self.pages_needed(n))?.into_iter();
        if n > 0
            && let Some(shared) = self.shared_last_page().cloned()
            && let Some(own) = taken.next()
        {
            self.pool.pool().push_copy(&shared, &own);
            let last = self.pages.len() - 1;
            self.replace_page(last, own);
        }
        for page in taken {
            self.ids.push(page.id());
            self.pages.push(Some(page));
        }
        let first = std::mem::replace(&mut self.len, len);
        self.version = next_version();
        Ok(self.slots(first..len))
    }

    fn replace_page(&mut self, index: usize, page: PageRef) {
        self.ids[index] = page.id();
        self.pages[index] = Some(page);
    }

    /// The launches that write all tokens are enqueued. [`Step::commit`](crate::Step::commit) calls it.
    pub fn commit(&mut self) {
        self.written = self.len;
    }

    /// Keeps the first `len` tokens, and frees pages past them: rejected tokens of speculation.
    ///
    /// # Errors
    ///
    /// [`CacheError::TooManyTokens`]; [`CacheError::SwappedOut`]; [`CacheError::Released`] if the next query would see
    /// what [`Sequence::window`] has released. Truncate first, and release then.
    pub fn truncate(&mut self, len: usize) -> Result<(), CacheError> {
        self.check_on_device()?;
        if len > self.len {
            return Err(CacheError::TooManyTokens { tokens: len, len: self.len });
        }
        self.gone = match self.gone {
            Some(gone) if gone.first < len && len < gone.least_len => {
                return Err(CacheError::Released { position: self.last_gone(gone, len) });
            }
            gone => gone.filter(|gone| gone.first < len),
        };
        let page_size = self.pool.page_size();
        let kept = len.div_ceil(page_size);
        self.pages.truncate(kept);
        self.ids.truncate(kept);
        (self.len, self.written) = (len, self.written.min(len));
        self.cached = self.cached.min(len / page_size * page_size);
        self.version = next_version();
        Ok(())
    }

    fn check_on_device(&self) -> Result<(), CacheError> {
        if self.swapped { Err(CacheError::SwappedOut) } else { Ok(()) }
    }

    /// A number that changes whenever the tokens do, and that no two sequences share.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The pool of its pages.
    pub fn pool(&self) -> &Pages {
        &self.pool
    }

    /// Checks that the keys of all tokens are in pages of the device, or are on their way.
    fn check_written(&self) -> Result<(), CacheError> {
        self.check_on_device()?;
        match self.new_tokens() {
            0 => Ok(()),
            tokens => Err(CacheError::Unwritten { tokens }),
        }
    }
}

#[cfg(test)]
mod tests;
