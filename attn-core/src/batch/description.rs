//! A batch as the caller describes it, and its validation.

use super::block_table::BlockTable;
use super::cascade::{self, CascadeLevel};
use super::error::BatchError;
use super::indptr::{check_indptr, check_len, check_tokens};
use super::layout::Layout;
use super::page_table::PageTable;

/// A batch of requests, as the caller describes it. [`Batch::validate`] checks it.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// `[requests + 1]` prefix sums of query counts: the queries of request `i` are tokens
    /// `qo_indptr[i] .. qo_indptr[i + 1]` of q, o and lse.
    pub qo_indptr: &'a [i32],
    /// Where the keys and values are.
    pub kv: KvLayout<'a>,
}

/// Where the keys and values of a batch are.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum KvLayout<'a> {
    /// `[requests + 1]` prefix sums of key counts into tensors of (tokens, kv_heads, head_dim).
    Ragged(&'a [i32]),
    /// Pages of pools of (pages, slots, kv_heads, head_dim).
    Paged(PageTable<'a>),
    /// Pages, in a table of padded rows.
    BlockTable(BlockTable<'a>),
    /// Keys that requests share, level by level, from the outermost level, which most requests share.
    Levels(&'a [CascadeLevel<'a>]),
}

impl<'a> Batch<'a> {
    /// Queries and keys in packed tensors, with prefix sums of their counts.
    #[must_use]
    pub fn ragged(qo_indptr: &'a [i32], kv_indptr: &'a [i32]) -> Self {
        Batch { qo_indptr, kv: KvLayout::Ragged(kv_indptr) }
    }

    /// Queries in a packed tensor, keys in pages.
    #[must_use]
    pub fn paged(qo_indptr: &'a [i32], pages: &PageTable<'a>) -> Self {
        Batch { qo_indptr, kv: KvLayout::Paged(*pages) }
    }

    /// Queries in a packed tensor, keys in pages of a block table.
    #[must_use]
    pub fn block_table(qo_indptr: &'a [i32], pages: &BlockTable<'a>) -> Self {
        Batch { qo_indptr, kv: KvLayout::BlockTable(*pages) }
    }

    /// Queries in a packed tensor, and keys that neighbouring requests share, level by level.
    ///
    /// ```
    /// use attn_core::batch::{Batch, CascadeLevel, CascadeLevelKv};
    ///
    /// // three requests of one query: all share tokens 0 to 7, the first two also share 8 and 9,
    /// // and each has keys of its own
    /// let levels = [
    ///     CascadeLevel { qo_indptr: &[0, 3], kv: CascadeLevelKv::Ragged(&[0, 8]) },
    ///     CascadeLevel { qo_indptr: &[0, 2, 3], kv: CascadeLevelKv::Ragged(&[8, 10, 10]) },
    ///     CascadeLevel { qo_indptr: &[0, 1, 2, 3], kv: CascadeLevelKv::Ragged(&[10, 13, 14, 19]) },
    /// ];
    /// let layout = Batch::cascade(&[0, 1, 2, 3], &levels).validate()?;
    /// assert_eq!([0, 1, 2].map(|request| layout.kv_len(request)), [8 + 2 + 3, 8 + 2 + 1, 8 + 5]);
    /// assert_eq!(layout.kv_memory_tokens(), 19);
    /// # Ok::<(), attn_core::batch::BatchError>(())
    /// ```
    #[must_use]
    pub fn cascade(qo_indptr: &'a [i32], levels: &'a [CascadeLevel<'a>]) -> Self {
        Batch { qo_indptr, kv: KvLayout::Levels(levels) }
    }

    /// Checks every array and gives the layout that backends run.
    ///
    /// It takes time linear in requests and pages. A batch may have no requests, and requests may have no queries or no
    /// keys.
    ///
    /// # Errors
    ///
    /// The first error found, with array, index and value.
    pub fn validate(&self) -> Result<Layout, BatchError> {
        let mut layout = Layout::default();
        self.validate_into(&mut layout)?;
        Ok(layout)
    }

    /// Validates into the memory of a layout. Nothing is allocated once that has grown to the largest batch.
    ///
    /// # Errors
    ///
    /// The errors of [`Batch::validate`]. The layout then has no requests.
    pub fn validate_into(&self, layout: &mut Layout) -> Result<(), BatchError> {
        let result = self.fill(layout);
        if result.is_err() {
            *layout = Layout::default();
        }
        result
    }

    fn fill(&self, layout: &mut Layout) -> Result<(), BatchError> {
        check_tokens("qo_indptr", self.qo_indptr)?;
        layout.levels = None;
        match &self.kv {
            KvLayout::Ragged(kv_indptr) => {
                check_tokens("kv_indptr", kv_indptr)?;
                check_len("kv_indptr", kv_indptr.len(), "qo_indptr", self.qo_indptr.len())?;
                copy(&mut layout.kv_indptr, kv_indptr);
                layout.pages = None;
            }
            KvLayout::Paged(table) => {
                check_indptr("page_indptr", table.indptr)?;
                check_len("page_indptr", table.indptr.len(), "qo_indptr", self.qo_indptr.len())?;
                let pages = layout.pages.get_or_insert_default();
                let min_pool = table.check_into(&mut pages.indices)?;
                table.write_kv_indptr(&mut layout.kv_indptr)?;
                copy(&mut pages.indptr, table.indptr);
                (pages.page_size, pages.min_pool) = (table.page_size, min_pool);
            }
            KvLayout::BlockTable(table) => {
                let pages = layout.pages.get_or_insert_default();
                table.fill(self.qo_indptr.len() - 1, pages, &mut layout.kv_indptr)?;
            }
            KvLayout::Levels(levels) => cascade::fill(layout, self.qo_indptr, levels)?,
        }
        copy(&mut layout.qo_indptr, self.qo_indptr);
        Ok(())
    }
}

/// Copies `from` to `to`, reusing its memory.
fn copy(to: &mut Vec<i32>, from: &[i32]) {
    to.clear();
    to.extend_from_slice(from);
}
