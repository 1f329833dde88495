//! Batches, and the largest batch of a plan.

use attn::{Batch, BatchCapacity, BlockTable, PageTable};

use crate::input::{Versioned, array, check_reserved, member};
use crate::status::Failure;

/// Where the keys of requests are.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttnBatchKind {
    /// One after the other: `kv_indptr`.
    Ragged = 0,
    /// In pages that are listed one request after the other (CSR): `page_indptr`, `page_indices`, `last_page_len`.
    Paged = 1,
    /// In pages, with as many entries for each request: `page_indices` of (requests, `pages_per_request`), `kv_lens`.
    BlockTable = 2,
}

/// A batch of requests. All arrays are in host memory, and are read during the call.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct AttnBatch {
    /// `sizeof(AttnBatch)`.
    pub size: usize,
    /// The number of requests.
    pub requests: usize,
    /// `requests + 1` entries: the first query token of each request, and their number.
    pub qo_indptr: *const i32,
    /// An `AttnBatchKind`.
    pub kind: u32,
    /// Tokens of a page.
    pub page_size: u32,
    /// Pages of the pool.
    pub num_pages: u32,
    /// Entries of a row of `page_indices` of a block table.
    pub pages_per_request: u32,
    /// Ragged: `requests + 1` entries, the first key of each request, and their number.
    pub kv_indptr: *const i32,
    /// Paged: `requests + 1` entries, the first entry of each request in `page_indices`, and their number.
    pub page_indptr: *const i32,
    /// The pages of the requests.
    pub page_indices: *const i32,
    /// Paged: `requests` entries, the tokens of the last page of each request.
    pub last_page_len: *const i32,
    /// Block table: `requests` entries, the keys of each request.
    pub kv_lens: *const i32,
}

// SAFETY: its first field is its size, and all fields are numbers and pointers.
unsafe impl Versioned for AttnBatch {
    const NAME: &'static str = "AttnBatch";
    const FIRST_SIZE: usize = 80;
}

/// The largest batch of a plan that is updated in place.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct AttnCapacity {
    /// `sizeof(AttnCapacity)`.
    pub size: usize,
    /// Requests.
    pub requests: u32,
    /// Query tokens of all requests.
    pub qo_tokens: u32,
    /// Keys of all requests.
    pub kv_tokens: u32,
    /// Tokens of a page; 0 where keys are ragged.
    pub page_size: u32,
    /// Pages of the pool.
    pub num_pages: u32,
    /// 0.
    pub reserved: u32,
}

// SAFETY: its first field is its size, and all fields are numbers.
unsafe impl Versioned for AttnCapacity {
    const NAME: &'static str = "AttnCapacity";
    const FIRST_SIZE: usize = 32;
}

impl AttnBatch {
    /// The batch over the caller's arrays.
    ///
    /// # Safety
    ///
    /// The arrays have the entries that the fields promise, and live as long as the result.
    pub(crate) unsafe fn batch<'a>(&self) -> Result<Batch<'a>, Failure> {
        let requests = self.requests;
        let ends = requests.checked_add(1).filter(|&ends| ends <= i32::MAX as usize);
        let ends = ends.ok_or_else(|| Failure::argument(format!("AttnBatch.requests is {requests}")))?;
        let kinds = [AttnBatchKind::Ragged, AttnBatchKind::Paged, AttnBatchKind::BlockTable];
        let kind = member(self.kind, &kinds, "AttnBatch.kind")?;
        let (page_size, num_pages) = (self.page_size, self.num_pages);
        // SAFETY: the caller guarantees it.
        unsafe {
            let qo_indptr = array(self.qo_indptr, ends, "AttnBatch.qo_indptr")?;
            Ok(match kind {
                AttnBatchKind::Ragged => Batch::ragged(qo_indptr, array(self.kv_indptr, ends, "AttnBatch.kv_indptr")?),
                AttnBatchKind::Paged => {
                    let indptr = array(self.page_indptr, ends, "AttnBatch.page_indptr")?;
                    let pages = usize::try_from(indptr[requests]).unwrap_or(0);
                    let indices = array(self.page_indices, pages, "AttnBatch.page_indices")?;
                    let last_page_len = array(self.last_page_len, requests, "AttnBatch.last_page_len")?;
                    Batch::paged(qo_indptr, &PageTable { indptr, indices, last_page_len, page_size, num_pages })
                }
                AttnBatchKind::BlockTable => {
                    let entries = requests.saturating_mul(self.pages_per_request as usize);
                    let pages = array(self.page_indices, entries, "AttnBatch.page_indices")?;
                    let kv_lens = array(self.kv_lens, requests, "AttnBatch.kv_lens")?;
                    let max_pages = self.pages_per_request as usize;
                    Batch::block_table(qo_indptr, &BlockTable { pages, max_pages, kv_lens, page_size, num_pages })
                }
            })
        }
    }
}

impl AttnCapacity {
    pub(crate) fn capacity(&self) -> Result<BatchCapacity, Failure> {
        check_reserved(self.reserved, "AttnCapacity.reserved")?;
        let capacity = BatchCapacity::new(self.requests, self.qo_tokens, self.kv_tokens);
        Ok(if self.page_size == 0 { capacity } else { capacity.in_pages(self.page_size, self.num_pages) })
    }
}
