//! A batch whose lengths nobody on the host has read.

use super::{Batch, BatchError, BlockTable, Layout, PagePool, PageTableBuf, check_indptr, check_len, indptr};

/// Numbers in memory of a device, or of the host where that is the device.
#[derive(Clone, Copy, Debug)]
pub struct Ints<'a> {
    place: Place<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Place<'a> {
    Host(&'a [i32]),
    Device { ptr: u64, len: usize },
}

impl<'a> Ints<'a> {
    /// Numbers in memory of the host: for the CPU backend.
    #[must_use]
    pub fn host(values: &'a [i32]) -> Self {
        Ints { place: Place::Host(values) }
    }

    /// `len` contiguous i32 at a device pointer, aligned to 4 bytes.
    ///
    /// # Safety
    ///
    /// They are there, and are written in the order of the stream that an update is given to, until everything that was launched with them, captured
    /// launches that are replayed included, has finished.
    #[must_use]
    pub unsafe fn device(ptr: u64, len: usize) -> Self {
        Ints { place: Place::Device { ptr, len } }
    }

    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        match self.place {
            Place::Host(values) => values.len(),
            Place::Device { len, .. } => len,
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The numbers, if they are in memory of the host.
    #[must_use]
    pub fn as_host(&self) -> Option<&'a [i32]> {
        match self.place {
            Place::Host(values) => Some(values),
            Place::Device { .. } => None,
        }
    }

    /// The device pointer; `None` for memory of the host.
    #[must_use]
    pub fn device_ptr(&self) -> Option<u64> {
        match self.place {
            Place::Host(_) => None,
            Place::Device { ptr, .. } => Some(ptr),
        }
    }
}

/// A batch that the device reads when it plans (`Plan::update_on_device`), each time anew: how many requests there are is known, and their lengths
/// and pages are what is in memory by then. A request without queries is nothing, so that a batch may be padded.
#[derive(Clone, Copy, Debug)]
pub struct DeviceBatch<'a> {
    /// `[requests + 1]` prefix sums of query counts, from 0.
    pub qo_indptr: Ints<'a>,
    /// `[requests]` keys of each.
    pub kv_lens: Ints<'a>,
    /// Where the keys are; `None`: ragged, the keys of a request behind those of the request before.
    pub pages: Option<DevicePages<'a>>,
}

/// A page table, of the page size and the pool that the plan's capacity says.
#[derive(Clone, Copy, Debug)]
pub enum DevicePages<'a> {
    /// In compressed rows.
    Compressed {
        /// `[requests + 1]` prefix sums of page counts, from 0: at least as many as a request's keys need.
        indptr: Ints<'a>,
        /// Pages in the pool, request by request: at least as many as `indptr` ever counts.
        indices: Ints<'a>,
    },
    /// In padded rows, as block tables are. Entries past the pages that a request's keys need are never read.
    Padded {
        /// `[requests][max_pages]` pages in the pool; more may follow.
        indices: Ints<'a>,
        /// Entries from one row to the next.
        max_pages: usize,
    },
}

impl<'a> DeviceBatch<'a> {
    /// Queries and keys in packed tensors.
    #[must_use]
    pub fn ragged(qo_indptr: Ints<'a>, kv_lens: Ints<'a>) -> Self {
        DeviceBatch { qo_indptr, kv_lens, pages: None }
    }

    /// Queries in a packed tensor, keys in pages.
    #[must_use]
    pub fn paged(qo_indptr: Ints<'a>, kv_lens: Ints<'a>, pages: DevicePages<'a>) -> Self {
        DeviceBatch { qo_indptr, kv_lens, pages: Some(pages) }
    }

    /// Every array, with its name.
    pub fn arrays(&self) -> impl Iterator<Item = (&'static str, Ints<'a>)> + use<'a> {
        let pages = match self.pages {
            None => [None, None],
            Some(DevicePages::Padded { indices, .. }) => [None, Some(("page_indices", indices))],
            Some(DevicePages::Compressed { indptr, indices }) => {
                [Some(("page_indptr", indptr)), Some(("page_indices", indices))]
            }
        };
        [("qo_indptr", self.qo_indptr), ("kv_lens", self.kv_lens)].into_iter().chain(pages.into_iter().flatten())
    }

    /// How many requests the arrays are of.
    ///
    /// # Errors
    ///
    /// Arrays that do not go together.
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

    /// The batch as it is now, of arrays in memory of the host; `None` for others. Pages beyond the keys of a request are left out.
    ///
    /// # Errors
    ///
    /// The first thing found wrong; [`BatchError::OtherKeys`] for pages without a pool, and the other way round.
    pub fn layout(&self, pool: Option<PagePool>) -> Result<Option<Layout>, BatchError> {
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
