//! Levels of a batch in device memory: the keys that requests share.

use super::capacity::PagePool;
use super::cascade::{CascadeLevel, CascadeLevelKv};
use super::description::Batch;
use super::device_pages::{DevicePages, lens, other_keys, page_table, rows};
use super::error::BatchError;
use super::i32_slice::I32Slice;
use super::indptr::indptr;
use super::layout::Layout;
use super::page_table::PageTableBuf;

/// A level of a batch in device memory: groups of neighbouring requests, and the keys that the requests of each group
/// share, as in a [`CascadeLevel`]. The keys of a request are those of its groups, level by level, and then its own.
///
/// Groups without queries have no requests, so that tables may be padded with them at the end. Requests without queries
/// at the end of the batch belong to the last group.
#[derive(Clone, Copy, Debug)]
pub struct DeviceLevel<'a> {
    /// `[groups + 1]` prefix sums of query counts; each must occur in the batch's `qo_indptr`.
    pub qo_indptr: I32Slice<'a>,
    /// `[groups]` key counts.
    pub kv_lens: I32Slice<'a>,
    /// The pages of each group, of the pool that the batch has; `None` for ragged keys, which are packed level by
    /// level and group by group, before those of the requests.
    pub pages: Option<DevicePages<'a>>,
}

impl<'a> DeviceLevel<'a> {
    /// The arrays and their names.
    pub(super) fn arrays(&self) -> impl Iterator<Item = (&'static str, I32Slice<'a>)> + use<'a> {
        let pages = self.pages.into_iter().flat_map(DevicePages::arrays);
        [("qo_indptr of a level", self.qo_indptr), ("kv_lens of a level", self.kv_lens)].into_iter().chain(pages)
    }

    /// The number of groups, by the lengths of the arrays.
    ///
    /// # Errors
    ///
    /// The lengths of the arrays do not fit each other.
    pub fn groups(&self) -> Result<usize, BatchError> {
        rows(&self.qo_indptr, &self.kv_lens, self.pages.as_ref())
    }
}

/// The keys of a level, in memory that a [`CascadeLevel`] borrows.
enum Keys {
    Paged(PageTableBuf),
    Ragged(Vec<i32>),
}

/// The layout of a batch with levels, if its arrays are in host memory, else `None`. `own` has the keys that are the
/// requests' own: the last level, whose errors are those of a batch without levels.
pub(super) fn layout(
    levels: &[DeviceLevel<'_>],
    own: &DeviceLevel<'_>,
    pool: Option<PagePool>,
) -> Result<Option<Layout>, BatchError> {
    let in_level = |level: usize, error: BatchError| match level < levels.len() {
        true => BatchError::CascadeLevel { level, error: Box::new(error) },
        false => error,
    };
    let (mut tables, mut token) = (Vec::new(), 0i32);
    for (number, level) in levels.iter().chain([own]).enumerate() {
        let (Some(ends), Some(kv_lens)) = (level.qo_indptr.as_host(), level.kv_lens.as_host()) else { return Ok(None) };
        let keys = match (&level.pages, pool) {
            (Some(pages), Some(pool)) => {
                let table = page_table(kv_lens, pages, pool).map_err(|error| in_level(number, error))?;
                let Some(table) = table else { return Ok(None) };
                Keys::Paged(table)
            }
            (None, None) => {
                let lens = lens(kv_lens).and_then(|lens| indptr(&lens)).map_err(|error| in_level(number, error))?;
                // tokens past 2^31 are refused with the sums
                let sums: Vec<i32> = lens.iter().map(|&end| token.saturating_add(end)).collect();
                token = sums.last().copied().unwrap_or(token);
                Keys::Ragged(sums)
            }
            (got, want) => return Err(other_keys(got.is_some(), want.is_some())),
        };
        tables.push((ends, keys));
    }
    let cascade: Vec<_> = (tables.iter())
        .map(|(qo_indptr, keys)| CascadeLevel {
            qo_indptr,
            kv: match keys {
                Keys::Paged(table) => CascadeLevelKv::Paged(table.table()),
                Keys::Ragged(indptr) => CascadeLevelKv::Ragged(indptr),
            },
        })
        .collect();
    let qo_indptr = tables.last().map_or(&[0][..], |(ends, _)| ends);
    Batch::cascade(qo_indptr, &cascade).validate().map(Some).map_err(|error| match error {
        BatchError::CascadeLevel { level, error } if level == levels.len() => *error,
        error => error,
    })
}
