//! Other batches over the tensors of a case, for plans that are updated.

use attn::Batch;
use attn_core::batch::{CascadeLevel, indptr};

use super::TestError;
use super::inputs::Inputs;
use super::keys::{Keys, LevelBuf};

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
        let keys = inputs.keys.kept(requests, keep)?;
        let queries = |&request: &usize| keep((inputs.qo_indptr[request + 1] - inputs.qo_indptr[request]) as u32);
        Ok(OtherBatch { qo_indptr: indptr(&requests.iter().map(queries).collect::<Vec<_>>())?, keys })
    }

    /// The levels of a cascade, for [`batch`](Self::batch).
    pub(super) fn levels(&self) -> Vec<CascadeLevel<'_>> {
        self.keys.levels()
    }

    pub(super) fn batch<'a>(&'a self, levels: &'a [CascadeLevel<'a>]) -> Batch<'a> {
        self.keys.batch(&self.qo_indptr, levels)
    }
}
