//! A batch in device memory, whose lengths the host does not know.

use super::block_table::BlockTable;
use super::capacity::PagePool;
use super::description::Batch;
use super::error::BatchError;
use super::indptr::{check_indptr, check_len, indptr};
use super::layout::Layout;
use super::page_table::PageTableBuf;

/// An array of i32 in device memory, or in host memory for the CPU backend.
#[derive(Clone, Copy, Debug)]
pub struct I32Slice<'a> {
    memory: I32Memory<'a>,
}

#[derive(Clone, Copy, Debug)]
enum I32Memory<'a> {
    Host(&'a [i32]),
    Device { ptr: u64, len: usize },
}

impl<'a> I32Slice<'a> {
    /// An array in host memory, for the CPU backend.
    #[must_use]
    pub fn host(values: &'a [i32]) -> Self {
        I32Slice { memory: I32Memory::Host(values) }
    }

    /// `len` contiguous i32 at a device pointer that is aligned to 4 bytes.
    ///
    /// # Safety
    ///
    /// The memory is valid on the device of each update that reads it, and written in stream order before these
    /// updates, until all work launched with it has finished, replayed graph captures included.
    #[must_use]
    pub unsafe fn device(ptr: u64, len: usize) -> Self {
        I32Slice { memory: I32Memory::Device { ptr, len } }
    }

    /// Number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        match self.memory {
            I32Memory::Host(values) => values.len(),
            I32Memory::Device { len, .. } => len,
        }
    }

    /// Whether it has no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The elements; `None` in device memory.
    #[must_use]
    pub fn as_host(&self) -> Option<&'a [i32]> {
        match self.memory {
            I32Memory::Host(values) => Some(values),
            I32Memory::Device { .. } => None,
        }
    }

    /// The device pointer; `None` in host memory.
    #[must_use]
    pub fn device_ptr(&self) -> Option<u64> {
        match self.memory {
            I32Memory::Host(_) => None,
            I32Memory::Device { ptr, .. } => Some(ptr),
        }
    }
}

/// A batch that the device reads when it plans (`Plan::update_on_device`). The host knows the number of requests; the
/// device reads lengths and pages anew at each planning. Requests without queries do nothing, so a batch may be padded
/// with them.
#[derive(Clone, Copy, Debug)]
pub struct DeviceBatch<'a> {
    /// `[requests + 1]` prefix sums of query counts, from 0.
    pub qo_indptr: I32Slice<'a>,
    /// `[requests]` key counts.
    pub kv_lens: I32Slice<'a>,
    /// The page table; `None` for ragged keys, packed request by request.
    pub pages: Option<DevicePages<'a>>,
    /// The most queries that `qo_indptr` may count, where the host knows it: tensors of a run then need no more rows.
    /// `None` for the capacity of the plan.
    pub qo_tokens: Option<u32>,
}

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

impl<'a> DeviceBatch<'a> {
    /// Queries and keys in packed tensors.
    #[must_use]
    pub fn ragged(qo_indptr: I32Slice<'a>, kv_lens: I32Slice<'a>) -> Self {
        DeviceBatch { qo_indptr, kv_lens, pages: None, qo_tokens: None }
    }

    /// Queries in a packed tensor, keys in pages.
    #[must_use]
    pub fn paged(qo_indptr: I32Slice<'a>, kv_lens: I32Slice<'a>, pages: DevicePages<'a>) -> Self {
        DeviceBatch { qo_indptr, kv_lens, pages: Some(pages), qo_tokens: None }
    }

    /// The batch, of which the caller promises that it has at most `qo_tokens` queries: one with more is past the
    /// capacity.
    #[must_use]
    pub fn with_qo_tokens(self, qo_tokens: u32) -> Self {
        DeviceBatch { qo_tokens: Some(qo_tokens), ..self }
    }

    /// The arrays and their names.
    pub fn arrays(&self) -> impl Iterator<Item = (&'static str, I32Slice<'a>)> + use<'a> {
        let pages = match self.pages {
            None => [None, None],
            Some(DevicePages::Padded { indices, .. }) => [None, Some(("page_indices", indices))],
            Some(DevicePages::Compressed { indptr, indices }) => {
                [Some(("page_indptr", indptr)), Some(("page_indices", indices))]
            }
        };
        [("qo_indptr", self.qo_indptr), ("kv_lens", self.kv_lens)].into_iter().chain(pages.into_iter().flatten())
    }

    /// The number of requests, by the lengths of the arrays.
    ///
    /// # Errors
    ///
    /// The lengths of the arrays do not fit each other.
    pub fn requests(&self) -> Result<usize, BatchError> {
        let entries = self.qo_indptr.len();
        let requests = entries.checked_sub(1).ok_or(BatchError::EmptyIndptr { array: "qo_indptr" })?;
        check_len("kv_lens", self.kv_lens.len(), "qo_indptr", requests)?;
        match &self.pages {
            None => {}
            Some(DevicePages::Compressed { indptr, .. }) => {
                check_len("page_indptr", indptr.len(), "qo_indptr", entries)?;
            }
            Some(DevicePages::Padded { indices, max_pages }) => {
                let entries = requests.saturating_mul(*max_pages);
                if indices.len() < entries {
                    check_len("page_indices", indices.len(), "requests * max_pages", entries)?;
                }
            }
        }
        Ok(requests)
    }

    /// The layout of the batch, if its arrays are in host memory, else `None`. Surplus pages are left out.
    ///
    /// # Errors
    ///
    /// The first error found; [`BatchError::OtherKeys`] for pages without a pool, or a pool without pages.
    pub fn layout(&self, pool: Option<PagePool>) -> Result<Option<Layout>, BatchError> {
        let layout = self.layout_of_arrays(pool)?;
        match (layout.as_ref().map(Layout::qo_tokens), self.qo_tokens) {
            (Some(count), Some(capacity)) if count > capacity as usize => {
                Err(BatchError::Capacity { what: "queries", count, capacity })
            }
            _ => Ok(layout),
        }
    }

    fn layout_of_arrays(&self, pool: Option<PagePool>) -> Result<Option<Layout>, BatchError> {
        let requests = self.requests()?;
        let (Some(qo_indptr), Some(kv_lens)) = (self.qo_indptr.as_host(), self.kv_lens.as_host()) else {
            return Ok(None);
        };
        let length = |(request, &kv_len)| u32::try_from(kv_len).map_err(|_| BatchError::KvLen { request, kv_len });
        let lens = kv_lens.iter().enumerate().map(length).collect::<Result<Vec<u32>, _>>()?;
        let of = |there: bool| if there { "in pages" } else { "ragged" }.to_owned();
        let (pages, pool) = match (&self.pages, pool) {
            (None, None) => return Batch::ragged(qo_indptr, &indptr(&lens)?).validate().map(Some),
            (Some(pages), Some(pool)) => (pages, pool),
            (got, want) => return Err(BatchError::OtherKeys { got: of(got.is_some()), want: of(want.is_some()) }),
        };
        let (indptr, indices) = match pages {
            DevicePages::Compressed { indptr, indices } => (indptr, indices),
            DevicePages::Padded { indices, max_pages } => {
                let Some(pages) = indices.as_host() else { return Ok(None) };
                let (max_pages, PagePool { page_size, num_pages }) = (*max_pages, pool);
                let table = BlockTable { pages, max_pages, kv_lens, page_size, num_pages };
                return Batch::block_table(qo_indptr, &table).validate().map(Some);
            }
        };
        let (Some(ends), Some(indices)) = (indptr.as_host(), indices.as_host()) else { return Ok(None) };
        check_indptr("page_indptr", ends)?;
        if indices.len() < ends[requests] as usize {
            return Err(BatchError::TooFewPages { indices: indices.len(), indptr_end: ends[requests] });
        }
        let page_size = pool.page_size.max(1);
        let mut used = Vec::new();
        for (request, (ends, &kv_len)) in ends.windows(2).zip(&lens).enumerate() {
            let (there, needed) = ((ends[1] - ends[0]) as usize, kv_len.div_ceil(page_size) as usize);
            if there < needed {
                return Err(BatchError::FewPages { request, pages: there, kv_len, page_size });
            }
            used.extend_from_slice(&indices[ends[0] as usize..][..needed]);
        }
        let mut used = used.into_iter();
        let table = PageTableBuf::from_lens(&lens, page_size, pool.num_pages, || used.next().unwrap_or(-1));
        Batch::paged(qo_indptr, &table.table()).validate().map(Some)
    }
}
