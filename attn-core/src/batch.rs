//! Batches: which queries meet which keys, and where the keys lie.
//!
//! A batch borrows the arrays of the caller; [`Batch::validate`] checks every word of them once and gives a
//! [`Layout`], which the planner and every backend trust from then on.

mod block_table;
mod capacity;
mod device;
mod error;
mod layout;
mod levels;
mod scan;
mod segment;

pub use block_table::{BlockTable, words};
pub use capacity::{BatchCapacity, PagePool};
pub use device::{DeviceBatch, DevicePages, Ints};
pub use error::BatchError;
pub use layout::{Layout, Pages};
pub use levels::{Level, LevelKv};
pub use segment::Segment;

use scan::scan_into;

/// The most query tokens, and the most keys, of a batch: 2^30 - 1. Hooks subtract and add index words in `i32`, and the
/// generated text relies on sums of two of them not overflowing.
pub const MAX_TOKENS: i32 = (1 << 30) - 1;

/// A batch of requests, as the caller describes it. Nothing is checked before [`Batch::validate`].
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// `[requests + 1]` prefix sums of query counts: the queries of request `i` are tokens
    /// `qo_indptr[i] .. qo_indptr[i + 1]` of q, o and lse.
    pub qo_indptr: &'a [i32],
    /// Where the keys are.
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
    /// The same pages, in a table of padded rows.
    BlockTable(BlockTable<'a>),
    /// Keys that requests share, level by level: the outermost first, which most requests share.
    Levels(&'a [Level<'a>]),
}

/// A page table in compressed rows: the pages of request `i` are
/// `indices[indptr[i] .. indptr[i + 1]]`, all full but the last, which holds `last_page_len[i]` keys.
#[derive(Clone, Copy, Debug)]
pub struct PageTable<'a> {
    /// `[requests + 1]` prefix sums of page counts.
    pub indptr: &'a [i32],
    /// Pages in the pool, request by request.
    pub indices: &'a [i32],
    /// `[requests]` keys in the last page: `1..=page_size`; for a request without pages it is ignored.
    pub last_page_len: &'a [i32],
    /// Keys that a page holds.
    pub page_size: u32,
    /// Pages in the pool.
    pub num_pages: u32,
}

impl<'a> Batch<'a> {
    /// Queries and keys in packed tensors, both cut by prefix sums.
    #[must_use]
    pub fn ragged(qo_indptr: &'a [i32], kv_indptr: &'a [i32]) -> Self {
        Batch { qo_indptr, kv: KvLayout::Ragged(kv_indptr) }
    }

    /// Queries in a packed tensor, keys in pages.
    #[must_use]
    pub fn paged(qo_indptr: &'a [i32], pages: &PageTable<'a>) -> Self {
        Batch { qo_indptr, kv: KvLayout::Paged(*pages) }
    }

    /// Queries in a packed tensor, keys in pages that padded rows name.
    #[must_use]
    pub fn block_table(qo_indptr: &'a [i32], pages: &BlockTable<'a>) -> Self {
        Batch { qo_indptr, kv: KvLayout::BlockTable(*pages) }
    }

    /// Queries in a packed tensor, and keys that neighbouring requests share, level by level.
    ///
    /// ```
    /// use attn_core::batch::{Batch, Level, LevelKv};
    ///
    /// // three requests of one query; all share tokens 0 to 7, the first two 8 to 9 as well, and each has keys of its own
    /// let levels = [
    ///     Level { qo_indptr: &[0, 3], kv: LevelKv::Ragged(&[0, 8]) },
    ///     Level { qo_indptr: &[0, 2, 3], kv: LevelKv::Ragged(&[8, 10, 10]) },
    ///     Level { qo_indptr: &[0, 1, 2, 3], kv: LevelKv::Ragged(&[10, 13, 14, 19]) },
    /// ];
    /// let layout = Batch::cascade(&[0, 1, 2, 3], &levels).validate()?;
    /// assert_eq!([0, 1, 2].map(|request| layout.kv_len(request)), [8 + 2 + 3, 8 + 2 + 1, 8 + 5]);
    /// assert_eq!(layout.kv_memory_tokens(), 19);
    /// # Ok::<(), attn_core::batch::BatchError>(())
    /// ```
    #[must_use]
    pub fn cascade(qo_indptr: &'a [i32], levels: &'a [Level<'a>]) -> Self {
        Batch { qo_indptr, kv: KvLayout::Levels(levels) }
    }

    /// Checks every array and gives the layout that backends run.
    ///
    /// Time is linear in requests plus pages. A batch of no requests is allowed; so are requests without queries
    /// and requests without keys.
    ///
    /// # Errors
    ///
    /// The first thing found wrong, with its array, index and value.
    pub fn validate(&self) -> Result<Layout, BatchError> {
        let mut layout = Layout::default();
        self.validate_into(&mut layout)?;
        Ok(layout)
    }

    /// As [`Batch::validate`], into the memory of a layout that is no longer needed: nothing is allocated once that has grown to the largest batch.
    ///
    /// # Errors
    ///
    /// As [`Batch::validate`]; the layout is then that of no requests.
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
                table.kv_indptr(&mut layout.kv_indptr)?;
                copy(&mut pages.indptr, table.indptr);
                (pages.page_size, pages.min_pool) = (table.page_size, min_pool);
            }
            KvLayout::BlockTable(table) => {
                let pages = layout.pages.get_or_insert_default();
                table.fill(self.qo_indptr.len() - 1, pages, &mut layout.kv_indptr)?;
            }
            KvLayout::Levels(levels) => levels::fill(layout, self.qo_indptr, levels)?,
        }
        copy(&mut layout.qo_indptr, self.qo_indptr);
        Ok(())
    }
}

/// Makes `to` a copy of `from`, in its memory.
fn copy(to: &mut Vec<i32>, from: &[i32]) {
    to.clear();
    to.extend_from_slice(from);
}

impl PageTable<'_> {
    /// Checks all but the lengths of last pages, and copies the pages in use; gives how many pages a pool must have. `indptr` is checked already.
    fn check_into(&self, copy: &mut Vec<i32>) -> Result<u32, BatchError> {
        let requests = self.indptr.len() - 1;
        check_len("last_page_len", self.last_page_len.len(), "page_indptr", requests)?;
        if !i32::try_from(self.page_size).is_ok_and(|size| size > 0) {
            return Err(BatchError::PageSize { page_size: self.page_size });
        }
        let used = self.indptr[requests];
        if self.indices.len() < used as usize {
            return Err(BatchError::TooFewPages { indices: self.indices.len(), indptr_end: used });
        }
        let indices = self.used_indices();
        let (most, signs) = scan_into(indices, copy);
        let pool = if indices.is_empty() { 0 } else { most as u32 + 1 };
        if signs >= 0 && pool <= self.num_pages {
            return Ok(pool);
        }
        let outside = |&page: &i32| u32::try_from(page).map_or(true, |page| page >= self.num_pages);
        let index = indices.iter().position(outside).unwrap_or(0);
        Err(BatchError::PageOutOfPool { index, page: indices[index], num_pages: self.num_pages })
    }

    /// Writes prefix sums of the keys of each request. The rest is checked already.
    fn kv_indptr(&self, kv_indptr: &mut Vec<i32>) -> Result<(), BatchError> {
        let page_size = self.page_size as i32;
        kv_indptr.clear();
        kv_indptr.reserve(self.indptr.len());
        let mut end = 0i32;
        kv_indptr.push(end);
        for (request, (ends, &last)) in self.indptr.windows(2).zip(self.last_page_len).enumerate() {
            let pages = i64::from(ends[1] - ends[0]);
            if pages > 0 {
                if !(1..=page_size).contains(&last) {
                    return Err(BatchError::LastPageLen { request, last_page_len: last, page_size: self.page_size });
                }
                let keys = (pages - 1) * i64::from(page_size) + i64::from(last);
                let total = i64::from(end) + keys;
                end = match i32::try_from(total) {
                    Ok(total) if total <= MAX_TOKENS => total,
                    _ => return Err(BatchError::TooManyKeys { request, total }),
                };
            }
            kv_indptr.push(end);
        }
        Ok(())
    }

    fn used_indices(&self) -> &[i32] {
        let used = self.indptr.last().map_or(0, |&end| end as usize);
        &self.indices[..used.min(self.indices.len())]
    }
}

/// The arrays of a page table, owned: for tests, examples, and callers that have lengths rather than tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageTableBuf {
    /// See [`PageTable::indptr`].
    pub indptr: Vec<i32>,
    /// See [`PageTable::indices`].
    pub indices: Vec<i32>,
    /// See [`PageTable::last_page_len`].
    pub last_page_len: Vec<i32>,
    /// See [`PageTable::page_size`].
    pub page_size: u32,
    /// See [`PageTable::num_pages`].
    pub num_pages: u32,
}

impl PageTableBuf {
    /// A table for requests of the given key counts; `next_page` names the page for each new block of `page_size`
    /// keys (0, 1, 2, .. for a pool filled in order).
    #[must_use]
    pub fn from_lens(kv_lens: &[u32], page_size: u32, num_pages: u32, mut next_page: impl FnMut() -> i32) -> Self {
        let mut buf = PageTableBuf { indptr: vec![0], page_size, num_pages, ..PageTableBuf::default() };
        for &len in kv_lens {
            for _ in 0..len.div_ceil(page_size.max(1)) {
                buf.indices.push(next_page());
            }
            let filled = if len == 0 { 0 } else { (len - 1) % page_size.max(1) + 1 };
            buf.last_page_len.push(filled as i32);
            buf.indptr.push(buf.indices.len() as i32);
        }
        buf
    }

    /// The table.
    #[must_use]
    pub fn table(&self) -> PageTable<'_> {
        PageTable {
            indptr: &self.indptr,
            indices: &self.indices,
            last_page_len: &self.last_page_len,
            page_size: self.page_size,
            num_pages: self.num_pages,
        }
    }
}

/// Prefix sums of lengths, starting at 0: `[2, 3]` gives `[0, 2, 5]`.
///
/// # Errors
///
/// [`BatchError::LengthsTooLong`] when the sum does not fit an `i32`.
pub fn indptr(lens: &[u32]) -> Result<Vec<i32>, BatchError> {
    let mut sums = Vec::with_capacity(lens.len() + 1);
    let mut total = 0u64;
    sums.push(0);
    for (index, &len) in lens.iter().enumerate() {
        total += u64::from(len);
        sums.push(i32::try_from(total).map_err(|_| BatchError::LengthsTooLong { index, total })?);
    }
    Ok(sums)
}

fn check_indptr(array: &'static str, indptr: &[i32]) -> Result<(), BatchError> {
    match indptr.first() {
        None => return Err(BatchError::EmptyIndptr { array }),
        Some(0) => {}
        Some(&first) => return Err(BatchError::IndptrStart { array, first }),
    }
    match indptr.windows(2).position(|ends| ends[1] < ends[0]) {
        None => Ok(()),
        Some(i) => Err(BatchError::IndptrNotMonotone { array, index: i + 1, value: indptr[i + 1], before: indptr[i] }),
    }
}

/// Prefix sums over tokens: what index words count.
fn check_tokens(array: &'static str, indptr: &[i32]) -> Result<(), BatchError> {
    check_indptr(array, indptr)?;
    match indptr.last() {
        Some(&total) if total > MAX_TOKENS => Err(BatchError::TooManyTokens { array, total }),
        _ => Ok(()),
    }
}

fn check_len(array: &'static str, len: usize, other: &'static str, want: usize) -> Result<(), BatchError> {
    if len == want { Ok(()) } else { Err(BatchError::LengthMismatch { array, len, other, want }) }
}

#[cfg(test)]
mod tests;
