//! Page tables of kept pages alone.

use attn_cache::{BlockSource, PageId, Pages, RELEASED, Sequence};

use super::Streaming;

/// Sequences of endless text, as a step sees them: kept pages alone, at positions that count the tokens of these pages.
/// A step over them has the same size however long the texts are.
#[derive(Debug)]
pub struct Streamed<'a> {
    sequences: &'a mut [Sequence],
    /// For each sequence its kept pages, and the tokens of the others.
    rows: Vec<(Vec<PageId>, usize)>,
}

impl<'a> Streamed<'a> {
    /// Releases the pages that the next tokens do not see, and makes the tables of the kept ones. `pages` is the pool of
    /// the sequences.
    #[must_use]
    pub fn new(sequences: &'a mut [Sequence], streaming: &Streaming, pages: &Pages) -> Self {
        let first_pages = streaming.sinks.div_ceil(pages.page_size());
        let row = |sequence: &mut Sequence| {
            sequence.window(streaming.window, streaming.sinks);
            let ids = sequence.page_ids();
            let (first, rest) = ids.split_at(first_pages.min(ids.len()));
            let last = rest.iter().rev().take_while(|&&page| page != RELEASED).count();
            let released = rest.len() - last;
            ([first, &rest[released..]].concat(), released * pages.page_size())
        };
        let rows = sequences.iter_mut().map(row).collect();
        Streamed { sequences, rows }
    }
}

impl BlockSource for Streamed<'_> {
    fn sequences(&self) -> usize {
        self.sequences.len()
    }

    fn pages(&self, sequence: usize) -> &[PageId] {
        &self.rows[sequence].0
    }

    fn tokens(&self, sequence: usize) -> usize {
        self.sequences[sequence].len() - self.rows[sequence].1
    }

    fn new_tokens(&self, sequence: usize) -> usize {
        self.sequences[sequence].new_tokens()
    }

    fn commit(&mut self) {
        self.sequences.iter_mut().for_each(Sequence::commit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_has_a_table_of_constant_size() -> Result<(), attn_cache::CacheError> {
        let (pages, streaming) = (Pages::new(8, 4)?, Streaming { sinks: 3, window: 9, fused: true });
        let mut sequences = [Sequence::new(&pages)];
        for len in 1..200 {
            sequences[0].append(1)?;
            let mut streamed = Streamed::new(&mut sequences, &streaming, &pages);
            let (row, tokens) = (streamed.pages(0).to_vec(), streamed.tokens(0));
            assert!(!row.contains(&RELEASED) && row.len() <= streaming.kept_pages(4, 1));
            assert_eq!(row.len(), tokens.div_ceil(4));
            assert_eq!((len - tokens) % 4, 0);
            assert!(tokens >= len.min(streaming.sinks + streaming.window));
            streamed.commit();
        }
        assert_eq!(pages.stats().used, sequences[0].held_pages());
        Ok(())
    }
}
