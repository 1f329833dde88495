//! Page tables in device memory, and the tables of those in host memory.

use super::block_table::BlockTable;
use super::capacity::PagePool;
use super::description::Batch;
use super::error::BatchError;
use super::i32_slice::I32Slice;
use super::indptr::{check_indptr, check_len};
use super::page_table::PageTableBuf;

/// A page table with the page size and the pool of the plan's capacity.
#[derive(Clone, Copy, Debug)]
pub enum DevicePages<'a> {
    /// In compressed rows.
    Compressed {
        /// `[requests + 1]` prefix sums of page counts, from 0. A request may have more pages than its keys need.
        indptr: I32Slice<'a>,
        /// Page numbers in the pool, request by request; at least as many as `indptr` ever counts.
        indices: I32Slice<'a>,
    },
    /// In padded rows, as in a [`BlockTable`]. Entries past the pages that a request's keys need are never read.
    Padded {
        /// `[requests][max_pages]` page numbers in the pool; the array may be longer.
        indices: I32Slice<'a>,
        /// Entries per row.
        max_pages: usize,
    },
}

impl<'a> DevicePages<'a> {
    /// The arrays and their names.
    pub(super) fn arrays(self) -> impl Iterator<Item = (&'static str, I32Slice<'a>)> {
        let (indptr, indices) = match self {
            DevicePages::Padded { indices, .. } => (None, indices),
            DevicePages::Compressed { indptr, indices } => (Some(indptr), indices),
        };
        indptr.map(|indptr| ("page_indptr", indptr)).into_iter().chain([("page_indices", indices)])
    }
}

/// The rows of the tables of a batch or a level.
pub(super) fn rows(
    qo_indptr: &I32Slice<'_>,
    kv_lens: &I32Slice<'_>,
    pages: Option<&DevicePages<'_>>,
) -> Result<usize, BatchError> {
    let entries = qo_indptr.len();
    let rows = entries.checked_sub(1).ok_or(BatchError::EmptyIndptr { array: "qo_indptr" })?;
    check_len("kv_lens", kv_lens.len(), "qo_indptr", rows)?;
    match pages {
        None => {}
        Some(DevicePages::Compressed { indptr, .. }) => {
            check_len("page_indptr", indptr.len(), "qo_indptr", entries)?;
        }
        Some(DevicePages::Padded { indices, max_pages }) => {
            let entries = rows.saturating_mul(*max_pages);
            if indices.len() < entries {
                check_len("page_indices", indices.len(), "requests * max_pages", entries)?;
            }
        }
    }
    Ok(rows)
}

/// Key counts, none of which is negative.
pub(super) fn lens(kv_lens: &[i32]) -> Result<Vec<u32>, BatchError> {
    let length = |(request, &kv_len)| u32::try_from(kv_len).map_err(|_| BatchError::KvLen { request, kv_len });
    kv_lens.iter().enumerate().map(length).collect()
}

/// The table of the pages that keys need, without surplus pages; `None` for arrays in device memory.
pub(super) fn page_table(
    kv_lens: &[i32],
    pages: &DevicePages<'_>,
    pool: PagePool,
) -> Result<Option<PageTableBuf>, BatchError> {
    let (lens, PagePool { page_size, num_pages }) = (lens(kv_lens)?, pool);
    let (requests, page_size) = (lens.len(), page_size.max(1));
    let mut used = Vec::new();
    match pages {
        DevicePages::Padded { indices, max_pages } => {
            let Some(pages) = indices.as_host() else { return Ok(None) };
            let table = BlockTable { pages, max_pages: *max_pages, kv_lens, page_size, num_pages };
            let queries = vec![0; requests + 1];
            used = Batch::block_table(&queries, &table).validate()?.pages.map_or(used, |pages| pages.indices);
        }
        DevicePages::Compressed { indptr, indices } => {
            let (Some(ends), Some(indices)) = (indptr.as_host(), indices.as_host()) else { return Ok(None) };
            check_indptr("page_indptr", ends)?;
            if indices.len() < ends[requests] as usize {
                return Err(BatchError::TooFewPages { indices: indices.len(), indptr_end: ends[requests] });
            }
            for (request, (ends, &kv_len)) in ends.windows(2).zip(&lens).enumerate() {
                let (there, needed) = ((ends[1] - ends[0]) as usize, kv_len.div_ceil(page_size) as usize);
                if there < needed {
                    return Err(BatchError::FewPages { request, pages: there, kv_len, page_size });
                }
                used.extend_from_slice(&indices[ends[0] as usize..][..needed]);
            }
        }
    }
    let mut used = used.into_iter();
    Ok(Some(PageTableBuf::from_lens(&lens, page_size, num_pages, || used.next().unwrap_or(-1))))
}

/// The error for pages in place of ragged keys, or the reverse.
pub(super) fn other_keys(got: bool, want: bool) -> BatchError {
    let of = |paged: bool| if paged { "in pages" } else { "ragged" }.to_owned();
    BatchError::OtherKeys { got: of(got), want: of(want) }
}
