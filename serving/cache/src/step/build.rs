//! Writes the arrays of a step.

use std::cmp::Ordering;

use attn_core::batch::MAX_TOKENS;

use super::{BlockSource, Step};
use crate::{CacheError, PageId, RELEASED};

/// Entries that are compared at a time, as memory.
const CHUNK: usize = 64;

impl Step {
    /// Writes the arrays for the sequences of a source, and collects the copies that copy-on-write asks for. Copies of
    /// an earlier build that was not committed are kept. The levels of the earlier build are dropped.
    ///
    /// It allocates nothing, except for copies beyond the capacity's sequences and for grouping.
    ///
    /// # Errors
    ///
    /// [`CacheError::Capacity`] names the count that is too large; [`CacheError::NoNewTokens`],
    /// [`CacheError::NewTokens`], [`CacheError::ShortTable`] and [`CacheError::PageOutOfPool`] the sequence, and
    /// [`CacheError::OtherPool`] its first page. The arrays are those of the earlier build then.
    pub fn build<S: BlockSource + ?Sized>(&mut self, source: &S) -> Result<(), CacheError> {
        let sequences = source.sequences();
        within("sequences in a step", sequences, self.capacity.sequences)?;
        let (mut tokens, mut entries, mut keys) = (0usize, 0usize, 0usize);
        for sequence in 0..sequences {
            let pages = self.check_row(source, sequence)?;
            within("pages of a sequence", pages, self.capacity.pages_per_sequence)?;
            entries += pages;
            tokens = tokens.saturating_add(source.new_tokens(sequence));
            keys = keys.saturating_add(source.tokens(sequence));
        }
        within("new tokens in a step", tokens, self.capacity.tokens)?;
        within("pages in a step", entries, self.capacity.pages)?;
        within("keys in a step", keys, MAX_TOKENS as usize)?;
        let before = (self.tokens, self.entries);
        (self.requests, self.tokens, self.entries) = (sequences, tokens, entries);
        self.levels.clear();
        self.order.clear();
        self.order.extend(0..sequences);
        if self.grouped {
            // stable, so sequences that share nothing keep their order
            self.order.sort_by(|&a, &b| compare(source.pages(a), source.pages(b)));
        }
        self.versions.clear();
        self.versions.extend((0..sequences).map(|sequence| source.version(sequence)));
        self.versions.sort_unstable();
        self.write_rows(source);
        self.pad(before.0, before.1);
        if let Some(copies) = &mut self.copies {
            copies.claim();
        }
        Ok(())
    }

    /// Checks a sequence, and returns how many pages its tokens fill.
    fn check_row<S: BlockSource + ?Sized>(&self, source: &S, sequence: usize) -> Result<usize, CacheError> {
        let (len, new) = (source.tokens(sequence), source.new_tokens(sequence));
        if new == 0 {
            return Err(CacheError::NoNewTokens { sequence });
        }
        if new > len {
            return Err(CacheError::NewTokens { sequence, new, len });
        }
        let (row, page_size, num_pages) = (source.pages(sequence), self.page_size, self.num_pages);
        let Some(row) = row.get(..len.div_ceil(page_size)) else {
            return Err(CacheError::ShortTable { sequence, pages: row.len(), len, page_size });
        };
        if let (Some(copies), Some(pool), Some(&page)) = (&self.copies, source.pool(sequence), row.first())
            && !copies.is_of(pool)
        {
            return Err(CacheError::OtherPool { page });
        }
        // new tokens need their pages; earlier ones may be released
        let first_new = (len - new) / page_size;
        let allowed = |index: usize, page: PageId| {
            page == RELEASED && index < first_new || usize::try_from(page).is_ok_and(|page| page < num_pages)
        };
        if row.iter().all(|&page| (page as u32 as usize) < num_pages) {
            return Ok(row.len());
        }
        match row.iter().enumerate().find(|&(index, &page)| !allowed(index, page)) {
            Some((index, &page)) => Err(CacheError::PageOutOfPool { sequence, index, page, num_pages }),
            None => Ok(row.len()),
        }
    }

    fn write_rows<S: BlockSource + ?Sized>(&mut self, source: &S) {
        let max_pages = self.capacity.pages_per_sequence;
        let (mut token, mut entry) = (0, 0);
        for (request, &sequence) in self.order.iter().enumerate() {
            let (len, new) = (source.tokens(sequence), source.new_tokens(sequence));
            let row = &source.pages(sequence)[..len.div_ceil(self.page_size)];
            // all counts are within the capacity, which i32 counts
            self.words[self.sections.qo_indptr.start + request] = token as i32;
            self.words[self.sections.page_indptr.start + request] = entry as i32;
            self.words[self.sections.kv_lens.start + request] = len as i32;
            let last = (len - 1) % self.page_size + 1;
            self.words[self.sections.last_page_len.start + request] = last as i32;
            let indices = self.sections.page_indices.start + entry;
            let padded = self.sections.block_table.start + request * max_pages;
            for start in [indices, padded] {
                write_row(&mut self.words[start..start + row.len()], row);
            }
            for (i, position) in (len - new..len).enumerate() {
                self.words[self.sections.positions.start + token + i] = position as i32;
                self.words[self.sections.requests.start + token + i] = request as i32;
                let page = i64::from(row[position / self.page_size]);
                self.slots[token + i] = page * self.page_size as i64 + (position % self.page_size) as i64;
            }
            (token, entry) = (token + new, entry + row.len());
        }
    }

    /// Fills the arrays past the step's requests and tokens, so that kernels which run all of the capacity do nothing
    /// there. An earlier step has written `tokens_before` tokens and `entries_before` entries; padding is behind them.
    pub(super) fn pad(&mut self, tokens_before: usize, entries_before: usize) {
        let Step { requests, tokens, entries, .. } = *self;
        let (tokens_end, entries_end) = (tokens.max(tokens_before), entries.max(entries_before));
        let at = self.sections.clone();
        self.words[at.qo_indptr][requests..].fill(tokens as i32);
        self.words[at.page_indptr][requests..].fill(entries as i32);
        self.words[at.kv_lens][requests..].fill(0);
        self.words[at.last_page_len][requests..].fill(0);
        self.words[at.page_indices][entries..entries_end].fill(0);
        self.words[at.positions][tokens..tokens_end].fill(0);
        self.words[at.requests][tokens..tokens_end].fill(-1);
        self.slots[tokens..tokens_end].fill(-1);
    }
}

/// Copies a row. Released entries get a page that the sequence still holds: its memory is written, and masks hide it.
fn write_row(to: &mut [PageId], row: &[PageId]) {
    to.copy_from_slice(row);
    if row.contains(&RELEASED) {
        // the page of the new tokens is held
        let held = row.iter().copied().find(|&page| page != RELEASED).unwrap_or(0);
        to.iter_mut().filter(|page| **page == RELEASED).for_each(|page| *page = held);
    }
}

/// The order of rows in which rows with a common prefix are neighbours.
fn compare(a: &[PageId], b: &[PageId]) -> Ordering {
    let same = common_entries(a, b);
    a[same..].first().cmp(&b[same..].first())
}

/// Entries at the start of two rows that are equal.
pub(super) fn common_entries(a: &[PageId], b: &[PageId]) -> usize {
    let chunks = a.chunks(CHUNK).zip(b.chunks(CHUNK)).take_while(|(a, b)| a == b);
    let equal: usize = chunks.map(|(chunk, _)| chunk.len()).sum();
    let rest = a[equal..].iter().zip(&b[equal..]).take_while(|(a, b)| a == b);
    equal + rest.count()
}

fn within(what: &'static str, count: usize, capacity: usize) -> Result<(), CacheError> {
    if count <= capacity { Ok(()) } else { Err(CacheError::Capacity { what, count, capacity }) }
}
