//! Sequences that move to host memory and back.

use super::Sequence;
use crate::{CacheError, PageId, PageRef, Pages, RELEASED};

/// The page copies that move a sequence from one pool to another. It holds the pages that are read: drop it when the
/// copies are enqueued, on the stream that later writes those pages.
#[derive(Debug)]
#[must_use = "the sequence is moved only once these pages are copied"]
pub struct Swap {
    pairs: Vec<[PageId; 2]>,
    _read: Vec<PageRef>,
}

impl Swap {
    /// The copies: a page of the pool that the sequence leaves, and one of the pool that it goes to, as `ops::swap_out`
    /// and `ops::swap_in` take them.
    #[must_use]
    pub fn pairs(&self) -> &[[PageId; 2]] {
        &self.pairs
    }
}

impl Sequence {
    /// Whether the sequence is in host memory.
    #[must_use]
    pub fn is_swapped_out(&self) -> bool {
        self.swapped
    }

    /// Moves the sequence to a pool in host memory, and gives its pages and its lock on the prefix tree back.
    ///
    /// # Errors
    ///
    /// [`CacheError::OutOfPages`] of the host pool; [`CacheError::Unwritten`]; [`CacheError::SwappedOut`];
    /// [`CacheError::PageSizes`]. Nothing has changed then.
    pub fn swap_out(&mut self, host: &Pages) -> Result<Swap, CacheError> {
        self.check_written()?;
        let swap = self.move_to(host)?;
        (self.swapped, self.lock, self.cached) = (true, None, 0);
        Ok(swap)
    }

    /// Moves the sequence back. All of its pages are its own then.
    ///
    /// # Errors
    ///
    /// [`CacheError::OutOfPages`] of the pool on the device; [`CacheError::NotSwappedOut`]. Nothing has changed then.
    pub fn swap_in(&mut self) -> Result<Swap, CacheError> {
        if !self.swapped {
            return Err(CacheError::NotSwappedOut);
        }
        let swap = self.move_to(&self.pool.clone())?;
        self.swapped = false;
        Ok(swap)
    }

    fn move_to(&mut self, target: &Pages) -> Result<Swap, CacheError> {
        let (got, want) = (target.page_size(), self.pool.page_size());
        if got != want {
            return Err(CacheError::PageSizes { got, want });
        }
        let mut taken = target.alloc(self.held_pages())?.into_iter();
        // a page whose copy-on-write is not made yet is read at its source; host pages have no such copies
        let (mut pairs, mut read) = (Vec::new(), Vec::new());
        for (page, id) in self.pages.iter_mut().zip(&mut self.ids) {
            let Some(old) = page.take() else { continue };
            let new = taken.next();
            *id = new.as_ref().map_or(RELEASED, PageRef::id);
            let source = if self.swapped { old } else { self.pool.pool().copy_source(&old) };
            pairs.push([source.id(), *id]);
            read.push(source);
            *page = new;
        }
        Ok(Swap { pairs, _read: read })
    }
}
