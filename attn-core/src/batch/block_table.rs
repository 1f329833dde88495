//! Page tables in padded rows (block tables).

use super::{error::BatchError, indptr::check_len, layout::Pages, limits::MAX_TOKENS, scan::scan};

/// A page table in padded rows: the pages of request `i` are `pages[i * max_pages ..][.. ceil(kv_lens[i] /
/// page_size)]`. Later entries of a row are never read and may have any value.
#[derive(Clone, Copy, Debug)]
pub struct BlockTable<'a> {
    /// `[requests][max_pages]` page numbers in the pool; the slice may be longer.
    pub pages: &'a [i32],
    /// Entries per row.
    pub max_pages: usize,
    /// `[requests]` key counts.
    pub kv_lens: &'a [i32],
    /// Keys per page.
    pub page_size: u32,
    /// Pages in the pool.
    pub num_pages: u32,
}

/// Reinterprets an array of u32 as the i32 that a batch takes. Values above `i32::MAX` become negative, and validation
/// refuses them.
#[must_use]
pub fn words(u32s: &[u32]) -> &[i32] {
    bytemuck::cast_slice(u32s)
}

impl BlockTable<'_> {
    /// Checks the table, and writes it in compressed rows, with prefix sums of the key counts.
    pub(super) fn fill(&self, requests: usize, to: &mut Pages, kv_indptr: &mut Vec<i32>) -> Result<(), BatchError> {
        let &BlockTable { pages, max_pages, kv_lens, page_size, num_pages } = self;
        check_len("kv_lens", kv_lens.len(), "qo_indptr", requests)?;
        if !i32::try_from(page_size).is_ok_and(|size| size > 0) {
            return Err(BatchError::PageSize { page_size });
        }
        let entries = requests.saturating_mul(max_pages);
        if pages.len() < entries {
            check_len("block_table", pages.len(), "requests * max_pages", entries)?;
        }
        kv_indptr.clear();
        to.indptr.clear();
        to.indices.clear();
        let (mut end, mut most) = (0i64, 0);
        kv_indptr.push(0);
        to.indptr.push(0);
        for (request, &kv_len) in kv_lens.iter().enumerate() {
            let keys = u32::try_from(kv_len).map_err(|_| BatchError::KvLen { request, kv_len })?;
            let needed = keys.div_ceil(page_size) as usize;
            if needed > max_pages {
                return Err(BatchError::FewPages { request, pages: max_pages, kv_len: keys, page_size });
            }
            end += i64::from(kv_len);
            if end > MAX_TOKENS.into() {
                return Err(BatchError::TooManyKeys { request, total: end });
            }
            let row = &pages[request * max_pages..][..needed];
            let scanned = scan(row);
            if scanned.signs < 0 || scanned.most as u32 >= num_pages && needed > 0 {
                return Err(outside(request, row, num_pages));
            }
            most = scanned.most.max(most);
            to.indices.extend_from_slice(row);
            // no more pages than keys
            to.indptr.push(to.indices.len() as i32);
            kv_indptr.push(end as i32);
        }
        to.min_pool = if to.indices.is_empty() { 0 } else { most as u32 + 1 };
        to.page_size = page_size;
        Ok(())
    }
}

/// The error for the first page of a row that is not in the pool.
fn outside(request: usize, row: &[i32], num_pages: u32) -> BatchError {
    let outside = |&page: &i32| u32::try_from(page).map_or(true, |page| page >= num_pages);
    let index = row.iter().position(outside).unwrap_or(0);
    BatchError::BlockTablePage { request, index, page: row[index], num_pages }
}
