//! A batch in device memory, whose lengths the host does not know.

use super::block_table::BlockTable;
use super::capacity::PagePool;
use super::description::Batch;
use super::device_levels;
use super::device_pages::{DevicePages, lens, other_keys, page_table, rows};
use super::error::BatchError;
use super::i32_slice::I32Slice;
use super::indptr::indptr;
use super::layout::Layout;

/// A batch that the device reads when it plans (`Plan::update_on_device`). The host knows the number of requests; the
/// device reads lengths and pages anew at each planning. Requests without queries do nothing, so a batch may be padded
/// with them.
#[derive(Clone, Copy, Debug)]
pub struct DeviceBatch<'a> {
    /// `[requests + 1]` prefix sums of query counts, from 0.
    pub qo_indptr: I32Slice<'a>,
    /// `[requests]` key counts; with levels, of the keys that are a request's own.
    pub kv_lens: I32Slice<'a>,
    /// The page table of these keys; `None` for ragged keys, packed request by request.
    pub pages: Option<DevicePages<'a>>,
    /// The most queries that `qo_indptr` may count, where the host knows it: tensors of a run then need no more rows.
    /// `None` for the capacity of the plan.
    pub qo_tokens: Option<u32>,
    /// The keys that requests share, from the outermost level, which most requests share. Empty without levels.
    ///
    /// A level is a batch without levels and bound, whose requests are groups of neighbours: `qo_indptr` has an end of
    /// each, which must occur in that of this batch, and `kv_lens` and `pages` the keys that the group shares, as in a
    /// [`CascadeLevel`](super::CascadeLevel). Ragged keys are packed level by level, before those of the requests.
    /// Groups without queries have no requests, so that tables may be padded with them at the end. Requests without
    /// queries at the end of the batch belong to the last group.
    pub levels: &'a [DeviceBatch<'a>],
}

impl<'a> DeviceBatch<'a> {
    /// Queries and keys in packed tensors.
    #[must_use]
    pub fn ragged(qo_indptr: I32Slice<'a>, kv_lens: I32Slice<'a>) -> Self {
        DeviceBatch { qo_indptr, kv_lens, pages: None, qo_tokens: None, levels: &[] }
    }

    /// Queries in a packed tensor, keys in pages.
    #[must_use]
    pub fn paged(qo_indptr: I32Slice<'a>, kv_lens: I32Slice<'a>, pages: DevicePages<'a>) -> Self {
        DeviceBatch { qo_indptr, kv_lens, pages: Some(pages), qo_tokens: None, levels: &[] }
    }

    /// The batch, of which the caller promises that it has at most `qo_tokens` queries: one with more is past the
    /// capacity.
    #[must_use]
    pub fn with_qo_tokens(self, qo_tokens: u32) -> Self {
        DeviceBatch { qo_tokens: Some(qo_tokens), ..self }
    }

    /// The same batch behind keys that requests share. The device runs the levels as they are, where the host may run
    /// such a batch flattened. Its plan has a capacity with one level more than these
    /// ([`BatchCapacity::in_levels`](super::BatchCapacity::in_levels)).
    #[must_use]
    pub fn with_levels(self, levels: &'a [DeviceBatch<'a>]) -> Self {
        DeviceBatch { levels, ..self }
    }

    /// The arrays and their names.
    pub fn arrays(&self) -> impl Iterator<Item = (&'static str, I32Slice<'a>)> + use<'a> {
        let levels = self.levels.iter().flat_map(|of| of.named(["qo_indptr of a level", "kv_lens of a level"]));
        self.named(["qo_indptr", "kv_lens"]).chain(levels)
    }

    fn named(&self, [qo, kv]: [&'static str; 2]) -> impl Iterator<Item = (&'static str, I32Slice<'a>)> + use<'a> {
        let pages = self.pages.into_iter().flat_map(DevicePages::arrays);
        [(qo, self.qo_indptr), (kv, self.kv_lens)].into_iter().chain(pages)
    }

    /// The number of requests, by the lengths of the arrays.
    ///
    /// # Errors
    ///
    /// The lengths of the arrays do not fit each other; a level that has levels, a bound or other keys.
    pub fn requests(&self) -> Result<usize, BatchError> {
        let requests = rows(&self.qo_indptr, &self.kv_lens, self.pages.as_ref())?;
        for (level, of) in self.levels.iter().enumerate() {
            let is_level = of.levels.is_empty() && of.qo_tokens.is_none();
            let groups = if is_level { of.requests() } else { Err(BatchError::NotOfLevel) };
            groups.map_err(|error| BatchError::CascadeLevel { level, error: Box::new(error) })?;
            if of.pages.is_some() != self.pages.is_some() {
                return Err(BatchError::LevelsDiffer { level });
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
        self.requests()?;
        if !self.levels.is_empty() {
            let arrays = |of: &DeviceBatch<'a>| (of.qo_indptr, of.kv_lens, of.pages);
            let levels: Vec<_> = self.levels.iter().chain([self]).map(arrays).collect();
            return device_levels::layout(&levels, pool);
        }
        let (Some(qo_indptr), Some(kv_lens)) = (self.qo_indptr.as_host(), self.kv_lens.as_host()) else {
            return Ok(None);
        };
        match (&self.pages, pool) {
            (None, None) => Batch::ragged(qo_indptr, &indptr(&lens(kv_lens)?)?).validate().map(Some),
            (Some(DevicePages::Padded { indices, max_pages }), Some(PagePool { page_size, num_pages })) => {
                let Some(pages) = indices.as_host() else { return Ok(None) };
                let table = BlockTable { pages, max_pages: *max_pages, kv_lens, page_size, num_pages };
                Batch::block_table(qo_indptr, &table).validate().map(Some)
            }
            (Some(pages), Some(pool)) => {
                let Some(table) = page_table(kv_lens, pages, pool)? else { return Ok(None) };
                Batch::paged(qo_indptr, &table.table()).validate().map(Some)
            }
            (got, want) => Err(other_keys(got.is_some(), want.is_some())),
        }
    }
}
