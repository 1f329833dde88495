//! Other batches over the tensors of a case, for plans that are updated.

use attn::Batch;
use attn::batch::{CascadeLevel, PageTableBuf, indptr, words};

use super::TestError;
use super::inputs::Inputs;
use super::keys::{BlockTableBuf, Keys, LevelBuf};

/// Another batch over the same tensors, no larger than that of the case.
pub(super) struct OtherBatch {
    qo_indptr: Vec<i32>,
    keys: Keys,
}

impl OtherBatch {
    /// Half of the requests, with half of their queries and keys; for a cascade, in the same groups, with half of the
    /// keys of each.
    pub(super) fn half(inputs: &Inputs) -> Result<Self, TestError> {
        let requests = (inputs.qo_indptr.len() - 1).div_ceil(2);
        let half = |len: u32| len.div_ceil(2);
        let Keys::Levels(levels) = &inputs.keys else {
            return Self::of(inputs, &(0..requests).collect::<Vec<_>>(), half);
        };
        let lens = inputs.qo_indptr.windows(2).take(requests).map(|ends| half((ends[1] - ends[0]) as u32));
        let qo_indptr = indptr(&lens.collect::<Vec<_>>())?;
        let first = |level| LevelBuf::first(level, &inputs.qo_indptr, &qo_indptr, half);
        let keys = Keys::Levels(levels.iter().map(first).collect::<Result<_, _>>()?);
        Ok(OtherBatch { qo_indptr, keys })
    }

    /// The requests in reverse order: tensors over the lengths of a batch fit it as they fit the case's.
    pub(super) fn reversed(inputs: &Inputs) -> Result<Self, TestError> {
        Self::of(inputs, &(0..inputs.qo_indptr.len() - 1).rev().collect::<Vec<_>>(), |len| len)
    }

    /// The given requests, with the kept queries and keys. Not for a cascade.
    fn of(inputs: &Inputs, requests: &[usize], keep: fn(u32) -> u32) -> Result<Self, TestError> {
        let len = |indptr: &[i32], request: usize| (indptr[request + 1] - indptr[request]) as u32;
        let kept = |sums: &[i32]| requests.iter().map(|&request| keep(len(sums, request))).collect::<Vec<_>>();
        let keys = match &inputs.keys {
            Keys::Ragged(kv_indptr) => Keys::Ragged(indptr(&kept(kv_indptr))?),
            Keys::Paged(table) => {
                let size = table.page_size;
                let lens = requests.iter().map(|&request| match len(&table.indptr, request) {
                    0 => 0,
                    pages => keep((pages - 1) * size + table.last_page_len[request] as u32),
                });
                let lens: Vec<u32> = lens.collect();
                let mut pages = requests.iter().zip(&lens).flat_map(|(&request, len)| {
                    &table.indices[table.indptr[request] as usize..][..len.div_ceil(size) as usize]
                });
                let next = || pages.next().copied().unwrap_or(0);
                Keys::Paged(PageTableBuf::from_lens(&lens, size, table.num_pages, next))
            }
            Keys::BlockTable(table) => {
                let lens: Vec<u32> = requests.iter().map(|&request| keep(table.kv_lens[request])).collect();
                let row = |(&request, &len): (&usize, &u32)| {
                    let pages = &words(&table.pages)[request * table.max_pages..];
                    &pages[..len.div_ceil(table.page_size) as usize]
                };
                let rows: Vec<&[i32]> = requests.iter().zip(&lens).map(row).collect();
                Keys::BlockTable(BlockTableBuf::of_rows(&rows, &lens, table.page_size, table.num_pages))
            }
            Keys::Levels(_) => return Err(attn::batch::BatchError::LevelsInCapacity.into()),
        };
        Ok(OtherBatch { qo_indptr: indptr(&kept(&inputs.qo_indptr))?, keys })
    }

    /// The levels of a cascade, for [`batch`](Self::batch).
    pub(super) fn levels(&self) -> Vec<CascadeLevel<'_>> {
        self.keys.levels()
    }

    pub(super) fn batch<'a>(&'a self, levels: &'a [CascadeLevel<'a>]) -> Batch<'a> {
        self.keys.batch(&self.qo_indptr, levels)
    }
}
