//! Batches, and the largest batch of a plan.

use std::mem::offset_of;

use attn::batch::KvLayout;
use attn::{Batch, BatchCapacity, BlockTable, CascadeLevel, CascadeLevelKv, PageTable};

use crate::input::{Versioned, array, check_array, member, versioned};
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
    /// In levels, each of which groups of neighbouring requests share (a cascade): `levels`.
    Levels = 3,
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
    /// Levels: from the one that most requests share to that of each request. A level is a batch, ragged or paged,
    /// whose requests are groups of neighbours: the entries of its `qo_indptr` occur in that of this batch. Ragged keys
    /// may begin at any token. A request has the keys of its group in each level, one level after the other.
    pub levels: *const AttnBatch,
    /// The number of levels.
    pub level_count: usize,
}

// SAFETY: its first field is its size, and all fields are numbers and pointers.
unsafe impl Versioned for AttnBatch {
    const NAME: &'static str = "AttnBatch";
    const FIRST_SIZE: usize = offset_of!(AttnBatch, levels);
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
    /// Keys of all requests. One that several requests share counts for each.
    pub kv_tokens: u32,
    /// Tokens of a page; 0 where keys are ragged.
    pub page_size: u32,
    /// Pages of the pool.
    pub num_pages: u32,
    /// Levels of a batch in levels; with 0 and 1 an update to such a batch is refused.
    pub levels: u32,
    /// Query tokens of one request; 0 for as many as those of all. 1 is decode.
    pub qo_len: u32,
    /// Tokens of ragged keys and values, where requests share some; 0 for `kv_tokens`.
    pub kv_memory_tokens: u32,
}

// SAFETY: its first field is its size, and all fields are numbers.
unsafe impl Versioned for AttnCapacity {
    const NAME: &'static str = "AttnCapacity";
    const FIRST_SIZE: usize = offset_of!(AttnCapacity, qo_len);
}

/// Calls `with` with a batch over the caller's arrays.
///
/// # Safety
///
/// The pointer is null, or that of a batch whose arrays have the entries that its fields promise.
pub(crate) unsafe fn with_batch<T>(
    from: *const AttnBatch,
    with: impl FnOnce(&Batch<'_>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    // SAFETY: the caller guarantees it.
    unsafe {
        let batch = versioned(from)?;
        let levels = batch.levels()?;
        with(&batch.read(&levels)?)
    }
}

impl AttnBatch {
    /// The levels, where there are any.
    unsafe fn levels<'a>(&self) -> Result<Vec<CascadeLevel<'a>>, Failure> {
        let mut levels = Vec::new();
        if self.kind != AttnBatchKind::Levels as u32 {
            return Ok(levels);
        }
        check_array(self.levels, self.level_count, "AttnBatch.levels")?;
        let mut at = self.levels;
        for i in 0..self.level_count {
            // SAFETY: the caller's level and its arrays.
            let level = unsafe { versioned(at).and_then(|level| Ok((level.size, level.read(&[])?))) };
            let in_level = |failure: Failure| failure.within(format_args!("AttnBatch.levels[{i}]"));
            let (size, Batch { qo_indptr, kv }) = level.map_err(in_level)?;
            let kv = match kv {
                KvLayout::Ragged(kv_indptr) => CascadeLevelKv::Ragged(kv_indptr),
                KvLayout::Paged(pages) => CascadeLevelKv::Paged(pages),
                _ => return Err(in_level(Failure::argument("AttnBatch.kind of a level is ragged (0) or paged (1)"))),
            };
            levels.push(CascadeLevel { qo_indptr, kv });
            // levels lie as far apart as the caller's struct is long
            at = at.wrapping_byte_add(size);
        }
        Ok(levels)
    }

    /// The batch over the caller's arrays, with the levels that were read of it.
    unsafe fn read<'a>(&self, levels: &'a [CascadeLevel<'a>]) -> Result<Batch<'a>, Failure> {
        let requests = self.requests;
        let ends = ends_of(requests, "AttnBatch.requests")?;
        let kinds = [AttnBatchKind::Ragged, AttnBatchKind::Paged, AttnBatchKind::BlockTable, AttnBatchKind::Levels];
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
                AttnBatchKind::Levels => Batch::cascade(qo_indptr, levels),
            })
        }
    }
}

/// The entries of prefix sums over requests.
pub(crate) fn ends_of(requests: usize, name: &str) -> Result<usize, Failure> {
    let ends = requests.checked_add(1).filter(|&ends| ends <= i32::MAX as usize);
    ends.ok_or_else(|| Failure::argument(format!("{name} is {requests}")))
}

impl AttnCapacity {
    pub(crate) fn capacity(&self) -> BatchCapacity {
        let AttnCapacity { requests, qo_tokens, kv_tokens, page_size, num_pages, .. } = *self;
        let of = BatchCapacity::new(requests, qo_tokens, kv_tokens).in_levels(self.levels.max(1));
        let of = if page_size == 0 { of } else { of.in_pages(page_size, num_pages) };
        let kv_memory_tokens = (self.kv_memory_tokens != 0).then_some(self.kv_memory_tokens);
        BatchCapacity { qo_len: if self.qo_len == 0 { of.qo_len } else { self.qo_len }, kv_memory_tokens, ..of }
    }
}
