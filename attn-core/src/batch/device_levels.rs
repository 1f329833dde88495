//! Levels of a batch in device memory: the keys that requests share.

use super::capacity::PagePool;
use super::cascade::{CascadeLevel, CascadeLevelKv};
use super::description::Batch;
use super::device_pages::{DevicePages, lens, other_keys, page_table};
use super::error::BatchError;
use super::i32_slice::I32Slice;
use super::indptr::indptr;
use super::layout::Layout;
use super::page_table::PageTableBuf;

/// The keys of a level, in memory that a [`CascadeLevel`] borrows.
enum Keys {
    Paged(PageTableBuf),
    Ragged(Vec<i32>),
}

/// `qo_indptr`, `kv_lens` and pages of a level.
type Arrays<'a> = (I32Slice<'a>, I32Slice<'a>, Option<DevicePages<'a>>);

/// The layout of a batch in levels, if its arrays are in host memory, else `None`. The last level has the keys that are
/// the requests' own; its errors are those of a batch without levels.
pub(super) fn layout(levels: &[Arrays<'_>], pool: Option<PagePool>) -> Result<Option<Layout>, BatchError> {
    let last = levels.len().saturating_sub(1);
    let in_level = |level: usize, error: BatchError| match level < last {
        true => BatchError::CascadeLevel { level, error: Box::new(error) },
        false => error,
    };
    let (mut tables, mut token) = (Vec::new(), 0i32);
    for (number, (qo_indptr, kv_lens, pages)) in levels.iter().enumerate() {
        let (Some(ends), Some(kv_lens)) = (qo_indptr.as_host(), kv_lens.as_host()) else { return Ok(None) };
        let keys = match (pages, pool) {
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
        BatchError::CascadeLevel { level, error } if level == last => *error,
        error => error,
    })
}
