//! Sliding windows: pages that no query will read again.

use std::ops::Range;

use super::{Sequence, gone::Gone, next_version};
use crate::RELEASED;

impl Sequence {
    /// Releases the pages that the next query no longer sees under a sliding window of `window` keys, its own included,
    /// that also sees the first `sinks` keys. Returns how many pages were released; each is released once.
    ///
    /// A page that the prefix tree or another sequence holds is not free then.
    pub fn window(&mut self, window: usize, sinks: usize) -> usize {
        // the next query is the first that is not written; it sees itself and `window - 1` keys before
        let window = window.max(1);
        let first = (self.written + 1).saturating_sub(window);
        // a query sees `window - 1` keys before its own
        self.release_pages(sinks..first, |end| end + (window - 1))
    }

    /// Releases the pages that lie wholly within a range of written positions. Masks must hide these positions from all
    /// later queries. A sequence that is swapped out keeps its pages.
    pub fn release(&mut self, positions: Range<usize>) -> usize {
        self.release_pages(positions, |end| end)
    }

    /// Releases pages. Queries do not see them in a sequence that is as long as `least_len` says for their end.
    fn release_pages(&mut self, positions: Range<usize>, least_len: impl Fn(usize) -> usize) -> usize {
        if self.swapped {
            return 0;
        }
        let page_size = self.pool.page_size();
        let first = positions.start.div_ceil(page_size);
        let end = positions.end.min(self.written) / page_size;
        let mut released = 0;
        for index in first..end {
            if self.pages[index].take().is_some() {
                self.ids[index] = RELEASED;
                self.note_gone(index * page_size, least_len((index + 1) * page_size));
                released += 1;
            }
        }
        released
    }

    /// Removes the entries of released pages from the page table: the tokens behind them move forward by whole pages,
    /// and lengths, positions and slots count what is left. Returns how many tokens the sequence is shorter by. It then
    /// gives its lock on the prefix tree back, and is not cached ([`CacheError::Compacted`](crate::CacheError)): its
    /// tokens are no longer a prefix.
    ///
    /// So the page table of an endless text stays short, for kernels that rotate keys by their place in the cache
    /// (StreamingLLM, arXiv 2309.17453).
    pub fn compact(&mut self) -> usize {
        let entries = self.ids.len();
        self.ids.retain(|&page| page != RELEASED);
        self.pages.retain(Option::is_some);
        let tokens = (entries - self.ids.len()) * self.pool.page_size();
        if tokens > 0 {
            // released pages lie wholly within the written tokens
            self.len -= tokens;
            self.written -= tokens;
            (self.lock, self.cached) = (None, 0);
            self.version = next_version();
            if let Some(gone) = &mut self.gone {
                (gone.moved, gone.least_len) = (true, gone.least_len.saturating_sub(tokens));
            }
        }
        tokens
    }

    /// Positions from `first` on are gone; queries of sequences of `least_len` tokens do not see them.
    pub(super) fn note_gone(&mut self, first: usize, least_len: usize) {
        let before = self.gone.unwrap_or(Gone { first, least_len, moved: false });
        let (first, least_len) = (before.first.min(first), before.least_len.max(least_len));
        self.gone = Some(Gone { first, least_len, ..before });
    }

    /// Tokens at the start that are all there, and in their places.
    pub(super) fn in_place(&self) -> usize {
        self.gone.map_or(self.len, |gone| gone.first)
    }

    /// The last position before `len` that is gone.
    pub(super) fn last_gone(&self, gone: Gone, len: usize) -> usize {
        let page_size = self.pool.page_size();
        let page = self.ids[..len.div_ceil(page_size)].iter().rposition(|&page| page == RELEASED);
        // what was taken out was before the first that has moved
        page.map_or(gone.first, |page| ((page + 1) * page_size).min(len) - 1)
    }
}
