//! The sizes of a step's arrays.

use std::ops::Range;

use crate::CacheError;

/// The most elements of the arrays: 1 GiB.
const MAX_ELEMENTS: usize = 1 << 28;

/// Upper bounds of the steps that one [`Step`](super::Step) may be built for. Memory and addresses depend on them
/// alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepCapacity {
    /// Sequences of a step.
    pub sequences: usize,
    /// New tokens of all sequences.
    pub tokens: usize,
    /// Entries of the page table of all sequences. A page that several share counts once for each.
    pub pages: usize,
    /// Entries of one sequence: the width of the padded table.
    pub pages_per_sequence: usize,
    /// Levels of a cascade, that of the sequences' own keys included; 1 for none. More than 7 are never chosen
    /// ([`Step::choose_levels`](super::Step::choose_levels)).
    pub levels: usize,
}

/// Where each array is in [`Step::words`](super::Step::words), in elements. Together they fill it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepSections {
    /// `[sequences + 1]` prefix sums of new tokens.
    pub qo_indptr: Range<usize>,
    /// `[sequences]` tokens, the new ones included.
    pub kv_lens: Range<usize>,
    /// `[sequences + 1]` prefix sums of pages.
    pub page_indptr: Range<usize>,
    /// `[sequences]` tokens in the last page.
    pub last_page_len: Range<usize>,
    /// `[pages]` page numbers, sequence by sequence.
    pub page_indices: Range<usize>,
    /// `[sequences][pages_per_sequence]` page numbers in padded rows.
    pub block_table: Range<usize>,
    /// `[tokens]` positions of the new tokens; 0 for padding.
    pub positions: Range<usize>,
    /// `[tokens]` requests of the new tokens; -1 for padding.
    pub requests: Range<usize>,
}

impl StepSections {
    /// Elements of all arrays.
    pub(super) fn words(&self) -> usize {
        self.requests.end
    }
}

impl StepCapacity {
    pub(super) fn sections(&self) -> Result<StepSections, CacheError> {
        let mut end = 0usize;
        let mut section = |len: usize| {
            let begin = end;
            end = end.saturating_add(len);
            begin..end
        };
        let sections = StepSections {
            qo_indptr: section(self.sequences.saturating_add(1)),
            kv_lens: section(self.sequences),
            page_indptr: section(self.sequences.saturating_add(1)),
            last_page_len: section(self.sequences),
            page_indices: section(self.pages),
            block_table: section(self.sequences.saturating_mul(self.pages_per_sequence)),
            positions: section(self.tokens),
            requests: section(self.tokens),
        };
        let (count, capacity) = (sections.words(), MAX_ELEMENTS);
        if count > capacity {
            return Err(CacheError::Capacity { what: "elements in the arrays of a step", count, capacity });
        }
        Ok(sections)
    }
}
