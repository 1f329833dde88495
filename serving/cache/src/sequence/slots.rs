//! The slots of tokens.

use std::ops::Range;

use crate::PageId;

/// The slots of a run of tokens in order: `page * page_size + offset`, as
/// [`SlotMapping::Slots`](attn_core::ops::SlotMapping) takes them.
#[derive(Clone, Debug)]
pub struct Slots<'a> {
    pages: &'a [PageId],
    page_size: usize,
    positions: Range<usize>,
}

impl<'a> Slots<'a> {
    /// The slots of positions that `pages` hold.
    pub(super) fn new(pages: &'a [PageId], page_size: usize, positions: Range<usize>) -> Self {
        Slots { pages, page_size, positions }
    }

    /// The positions of the tokens that are left.
    #[must_use]
    pub fn positions(&self) -> Range<usize> {
        self.positions.clone()
    }
}

impl Iterator for Slots<'_> {
    type Item = i64;

    fn next(&mut self) -> Option<i64> {
        let position = self.positions.next()?;
        let (page, slot) = (self.pages[position / self.page_size], position % self.page_size);
        // a page size is below 2^31
        Some(if page < 0 { -1 } else { i64::from(page) * self.page_size as i64 + slot as i64 })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.positions.size_hint()
    }
}

impl ExactSizeIterator for Slots<'_> {}
