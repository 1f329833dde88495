//! Batches whose arrays the device reads when it plans.

use std::mem::offset_of;

use attn::batch::{DeviceBatch, DevicePages, I32Slice};

use crate::batch::{AttnBatchKind, ends_of};
use crate::input::{Versioned, check_array, member, versioned};
use crate::memory::{Memory, numbers};
use crate::status::Failure;

/// A batch in memory of the device (of the host where the engine is the CPU), which knows the lengths: the host need
/// not. Pages have the size and the pool of the plan's capacity. Zero it, then set `size` and what differs from zero.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct AttnDeviceBatch {
    /// `sizeof(AttnDeviceBatch)`.
    pub size: usize,
    /// The number of requests. One without queries does nothing, so that a batch may be padded with such requests.
    pub requests: usize,
    /// `requests + 1` entries: the first query token of each request, and their number.
    pub qo_indptr: *const i32,
    /// `requests` entries: the keys of each request.
    pub kv_lens: *const i32,
    /// An `AttnBatchKind`: ragged, paged or a block table.
    pub kind: u32,
    /// Entries of a row of `page_indices` of a block table.
    pub pages_per_request: u32,
    /// Paged: `requests + 1` entries, the first entry of each request in `page_indices`, and their number. A request
    /// may have more pages than its keys need.
    pub page_indptr: *const i32,
    /// The pages of the requests.
    pub page_indices: *const i32,
    /// Paged: entries of `page_indices`, at least as many as `page_indptr` ever counts.
    pub page_entries: usize,
    /// The keys that requests share, from the level that most requests share; null without levels. A level is such a
    /// batch, whose requests are groups of neighbours: the entries of its `qo_indptr` occur in that of this batch. A
    /// request has the keys of its group in each level, and then its own. Ragged keys lie level by level.
    pub levels: *const AttnDeviceBatch,
    /// The number of levels, without that of the requests' own keys; `AttnCapacity.levels` counts it.
    pub level_count: usize,
    /// If it is not 0, the most queries that `qo_indptr` counts: without a capture, tensors of runs need no more rows.
    /// Otherwise they have those of the plan's capacity.
    pub qo_tokens: u32,
}

// SAFETY: its first field is its size, and all fields are numbers and pointers.
unsafe impl Versioned for AttnDeviceBatch {
    const NAME: &'static str = "AttnDeviceBatch";
    const FIRST_SIZE: usize = offset_of!(AttnDeviceBatch, levels);
}

/// Calls `with` with the batch over the caller's arrays.
///
/// # Safety
///
/// The pointer is null, or that of a batch whose arrays have the entries that its fields promise, and live until the
/// work that reads them is done.
pub(crate) unsafe fn with_device_batch<T>(
    from: *const AttnDeviceBatch,
    memory: &Memory,
    with: impl FnOnce(&DeviceBatch<'_>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    // SAFETY: the caller guarantees it.
    unsafe {
        let batch = versioned(from)?;
        let levels = batch.levels(memory)?;
        with(&batch.level(memory)?.with_levels(&levels))
    }
}

impl AttnDeviceBatch {
    /// The levels before the requests' own keys.
    unsafe fn levels<'a>(&self, memory: &Memory) -> Result<Vec<DeviceBatch<'a>>, Failure> {
        let mut levels = Vec::new();
        if self.level_count == 0 {
            return Ok(levels);
        }
        check_array(self.levels, self.level_count, "AttnDeviceBatch.levels")?;
        let mut at = self.levels;
        for i in 0..self.level_count {
            // SAFETY: the caller's level and its arrays.
            let level = unsafe { versioned(at).and_then(|level| Ok((level, level.level(memory)?))) };
            let in_level = |failure: Failure| failure.within(format_args!("AttnDeviceBatch.levels[{i}]"));
            let (AttnDeviceBatch { size, level_count, .. }, level) = level.map_err(in_level)?;
            if level_count > 0 {
                return Err(in_level(Failure::argument("AttnDeviceBatch.level_count of a level is 0")));
            }
            levels.push(level);
            // levels lie as far apart as the caller's struct is long
            at = at.wrapping_byte_add(size);
        }
        Ok(levels)
    }

    /// The caller's arrays.
    unsafe fn level<'a>(&self, memory: &Memory) -> Result<DeviceBatch<'a>, Failure> {
        let (requests, ends) = (self.requests, ends_of(self.requests, "AttnDeviceBatch.requests")?);
        let kinds = [AttnBatchKind::Ragged, AttnBatchKind::Paged, AttnBatchKind::BlockTable];
        let kind = member(self.kind, &kinds, "AttnDeviceBatch.kind")?;
        let ints = |from: *const i32, len, name| -> Result<I32Slice<'a>, Failure> {
            // SAFETY: the caller guarantees it.
            Ok(unsafe {
                match numbers(from, len, memory, name)?.as_host() {
                    Some(values) => I32Slice::host(values),
                    None => I32Slice::device(from as u64, len),
                }
            })
        };
        let pages = |len| ints(self.page_indices, len, "AttnDeviceBatch.page_indices");
        let max_pages = self.pages_per_request as usize;
        let qo_indptr = ints(self.qo_indptr, ends, "AttnDeviceBatch.qo_indptr")?;
        let kv_lens = ints(self.kv_lens, requests, "AttnDeviceBatch.kv_lens")?;
        let pages = match kind {
            AttnBatchKind::Paged => Some(DevicePages::Compressed {
                indptr: ints(self.page_indptr, ends, "AttnDeviceBatch.page_indptr")?,
                indices: pages(self.page_entries)?,
            }),
            AttnBatchKind::BlockTable => {
                Some(DevicePages::Padded { indices: pages(requests.saturating_mul(max_pages))?, max_pages })
            }
            _ => None,
        };
        let qo_tokens = (self.qo_tokens > 0).then_some(self.qo_tokens);
        Ok(DeviceBatch { pages, qo_tokens, ..DeviceBatch::ragged(qo_indptr, kv_lens) })
    }
}
