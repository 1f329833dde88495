//! What a sequence no longer has of its tokens.

use super::Sequence;
use crate::RELEASED;

/// Pages that were released, and whether they were taken out of the page table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gone {
    /// Tokens before this position are all there, and in their places.
    pub(super) first: usize,
    /// The queries of a sequence that is at least this long do not see what is gone.
    pub(super) least_len: usize,
    /// Tokens from `first` on have moved forward.
    pub(super) moved: bool,
}

impl Sequence {
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
