//! The arrays of a step, as kernels take them.

use attn_core::batch::{Batch, BlockTable, PageTable};

use super::Step;
use crate::PageId;

/// The arrays of a step: [`Step::arrays`] for its requests alone, [`Step::padded`] for all of the capacity.
#[derive(Clone, Copy, Debug)]
pub struct StepArrays<'a> {
    /// `[requests + 1]` prefix sums of new tokens.
    pub qo_indptr: &'a [i32],
    /// `[requests]` tokens, the new ones included.
    pub kv_lens: &'a [i32],
    /// `[requests + 1]` prefix sums of pages.
    pub page_indptr: &'a [i32],
    /// `[requests]` tokens in the last page; 0 without pages.
    pub last_page_len: &'a [i32],
    /// Page numbers, request by request.
    pub page_indices: &'a [PageId],
    /// `[requests][max_pages]` page numbers in padded rows. Entries past a request's pages are pages of earlier steps,
    /// or 0; no kernel reads them.
    pub block_table: &'a [PageId],
    /// Entries of a padded row.
    pub max_pages: usize,
    /// `[tokens]` slots of the new tokens, -1 for padding.
    pub slots: &'a [i64],
    /// `[tokens]` positions of the new tokens, 0 for padding.
    pub positions: &'a [i32],
    /// `[tokens]` requests of the new tokens, -1 for padding.
    pub requests: &'a [i32],
    /// Tokens per page.
    pub page_size: usize,
    /// Pages of the pool.
    pub num_pages: usize,
}

impl<'a> StepArrays<'a> {
    /// The page table in compressed rows.
    #[must_use]
    pub fn page_table(&self) -> PageTable<'a> {
        PageTable {
            indptr: self.page_indptr,
            indices: self.page_indices,
            last_page_len: self.last_page_len,
            page_size: self.page_size as u32, // both are below 2^31
            num_pages: self.num_pages as u32,
        }
    }

    /// The page table in padded rows.
    #[must_use]
    pub fn padded_table(&self) -> BlockTable<'a> {
        BlockTable {
            pages: self.block_table,
            max_pages: self.max_pages,
            kv_lens: self.kv_lens,
            page_size: self.page_size as u32,
            num_pages: self.num_pages as u32,
        }
    }

    /// The batch: each request has its new tokens as queries, and all of its tokens as keys.
    #[must_use]
    pub fn batch(&self) -> Batch<'a> {
        Batch::paged(self.qo_indptr, &self.page_table())
    }
}

impl Step {
    /// The arrays of the step that was built last.
    #[must_use]
    pub fn arrays(&self) -> StepArrays<'_> {
        self.arrays_of(self.requests, self.tokens, self.entries)
    }

    /// The same arrays in the lengths of the capacity. The requests past those of the step have no queries and no keys,
    /// and the tokens past those of the step are skipped, so a captured graph runs all of it in every step.
    #[must_use]
    pub fn padded(&self) -> StepArrays<'_> {
        self.arrays_of(self.capacity.sequences, self.capacity.tokens, self.capacity.pages)
    }

    fn arrays_of(&self, requests: usize, tokens: usize, entries: usize) -> StepArrays<'_> {
        let first = |section: &std::ops::Range<usize>, len: usize| &self.words[section.clone()][..len];
        let max_pages = self.capacity.pages_per_sequence;
        let at = &self.sections;
        StepArrays {
            qo_indptr: first(&at.qo_indptr, requests + 1),
            kv_lens: first(&at.kv_lens, requests),
            page_indptr: first(&at.page_indptr, requests + 1),
            last_page_len: first(&at.last_page_len, requests),
            page_indices: first(&at.page_indices, entries),
            block_table: first(&at.block_table, requests * max_pages),
            max_pages,
            slots: &self.slots[..tokens],
            positions: first(&at.positions, tokens),
            requests: first(&at.requests, tokens),
            page_size: self.page_size,
            num_pages: self.num_pages,
        }
    }
}
