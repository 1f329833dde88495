//! Page tables in compressed rows (CSR).

use super::{error::BatchError, indptr::check_len, limits::MAX_TOKENS, scan::scan_into};

/// A page table in compressed rows, as in FlashInfer: the pages of request `i` are `indices[indptr[i] .. indptr[i +
/// 1]]`. All are full except the last one, which holds `last_page_len[i]` keys.
#[derive(Clone, Copy, Debug)]
pub struct PageTable<'a> {
    /// `[requests + 1]` prefix sums of page counts.
    pub indptr: &'a [i32],
    /// Page numbers in the pool, request by request.
    pub indices: &'a [i32],
    /// `[requests]` keys in the last page, `1..=page_size`; ignored for a request without pages.
    pub last_page_len: &'a [i32],
    /// Keys per page.
    pub page_size: u32,
    /// Pages in the pool.
    pub num_pages: u32,
}

impl PageTable<'_> {
    /// Checks everything except `last_page_len`, copies the page numbers in use, and returns the least size of the
    /// pool. `indptr` is checked already.
    pub(super) fn check_into(&self, copy: &mut Vec<i32>) -> Result<u32, BatchError> {
        let requests = self.indptr.len() - 1;
        check_len("last_page_len", self.last_page_len.len(), "page_indptr", requests)?;
        if !i32::try_from(self.page_size).is_ok_and(|size| size > 0) {
            return Err(BatchError::PageSize { page_size: self.page_size });
        }
        let used = self.indptr[requests];
        if self.indices.len() < used as usize {
            return Err(BatchError::TooFewPages { indices: self.indices.len(), indptr_end: used });
        }
        let indices = &self.indices[..used as usize];
        let scanned = scan_into(indices, copy);
        let pool = if indices.is_empty() { 0 } else { scanned.most as u32 + 1 };
        if scanned.signs >= 0 && pool <= self.num_pages {
            return Ok(pool);
        }
        let outside = |&page: &i32| u32::try_from(page).map_or(true, |page| page >= self.num_pages);
        let index = indices.iter().position(outside).unwrap_or(0);
        Err(BatchError::PageOutOfPool { index, page: indices[index], num_pages: self.num_pages })
    }

    /// Writes prefix sums of the key counts. All else is checked already.
    pub(super) fn write_kv_indptr(&self, kv_indptr: &mut Vec<i32>) -> Result<(), BatchError> {
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
}

/// An owned page table, for tests, examples, and callers that start from lengths.
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
    /// Makes a table for requests of these key counts. `next_page` gives the page number of each new block of
    /// `page_size` keys (0, 1, 2, .. for a pool filled in order).
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
