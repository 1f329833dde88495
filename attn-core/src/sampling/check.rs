//! The checks of sampling that the CPU and CUDA share.

use super::{PerRow, SampleOut, SamplingParams, Source, TopLogProbs};
use crate::dtype::Dtype;
use crate::ops::{Array, Number, OpError, check};
use crate::tensor::{TensorMut, TensorRef};

/// Types of logits.
const DTYPES: [Dtype; 3] = [Dtype::F16, Dtype::Bf16, Dtype::F32];

/// The most [`TopLogProbs::count`].
pub const MAX_TOP: usize = 64;

/// Extents of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Rows of the logits.
    pub sources: usize,
    /// Rows of the results.
    pub rows: usize,
    /// Tokens of the vocabulary.
    pub vocab: usize,
}

/// Checks the arguments of sampling.
///
/// # Errors
///
/// A tensor or array that does not fit; a parameter out of its range, where it is one for all rows.
pub fn check(
    source: Source,
    tensor: &TensorRef<'_>,
    params: &SamplingParams<'_>,
    out: &SampleOut<'_>,
) -> Result<Sizes, OpError> {
    let sizes = inputs(source, tensor, params, out.ids.len())?;
    let Sizes { rows, vocab, .. } = sizes;
    len("positions", out.positions.len(), rows)?;
    if let Some(penalties) = &params.penalties {
        if out.counts.is_none() {
            return Err(OpError::Missing { given: "penalties", missing: "counts" });
        }
        per_row("repetition", &penalties.repetition, rows)?;
        per_row("presence", &penalties.presence, rows)?;
        per_row("frequency", &penalties.frequency, rows)?;
        if let PerRow::All(got) = penalties.repetition
            && !(got > 0.0 && got.is_finite())
        {
            return Err(OpError::Parameter { name: "repetition", got, want: "above 0 and finite; 1 is off" });
        }
        for (name, penalty) in [("presence", penalties.presence), ("frequency", penalties.frequency)] {
            if let PerRow::All(got) = penalty
                && !got.is_finite()
            {
                return Err(OpError::Parameter { name, got, want: "finite; 0 is off" });
            }
        }
    }
    if let Some(counts) = &out.counts {
        len("counts", counts.len(), rows * vocab)?;
    }
    if let Some(log_probs) = &out.log_probs {
        len("log_probs", log_probs.len(), rows)?;
    }
    if let Some(probs) = &out.probs {
        target("probs", probs, rows, vocab)?;
    }
    if let Some(TopLogProbs { ids, log_probs, count }) = &out.top {
        if !(1..=MAX_TOP).contains(count) {
            return Err(OpError::Parameter { name: "top.count", got: *count as f32, want: "1 to 64" });
        }
        len("top.ids", ids.len(), rows * count)?;
        len("top.log_probs", log_probs.len(), rows * count)?;
    }
    Ok(sizes)
}

/// Checks the arguments of what filters keep.
///
/// # Errors
///
/// Penalties, which need counts; the errors of [`check()`].
pub fn check_keep(
    source: Source,
    tensor: &TensorRef<'_>,
    params: &SamplingParams<'_>,
    out: &TensorMut<'_>,
) -> Result<Sizes, OpError> {
    let rows = out.shape().first().copied().unwrap_or(0);
    let sizes = inputs(source, tensor, params, rows)?;
    if params.penalties.is_some() {
        return Err(OpError::Missing { given: "penalties", missing: "counts" });
    }
    target("out", out, sizes.rows, sizes.vocab)?;
    Ok(sizes)
}

/// Checks what is read, and the number of results.
fn inputs(
    source: Source,
    tensor: &TensorRef<'_>,
    params: &SamplingParams<'_>,
    results: usize,
) -> Result<Sizes, OpError> {
    let sizes = sources(source.name(), tensor, &DTYPES, params.indices.as_ref(), results)?;
    let Sizes { rows, vocab, .. } = sizes;
    if source == Source::Probs {
        let of_logits = |parameter| Err(OpError::OfLogits { parameter });
        if !matches!(params.temperature, PerRow::All(1.0)) {
            return of_logits("temperature");
        }
        if params.penalties.is_some() {
            return of_logits("penalties");
        }
    }
    per_row("temperature", &params.temperature, rows)?;
    per_row("top_k", &params.top_k, rows)?;
    per_row("top_p", &params.top_p, rows)?;
    per_row("min_p", &params.min_p, rows)?;
    per_row("seeds", &params.seeds, rows)?;
    if let Some(mask) = &params.token_mask {
        mask.expect_len("token_mask", rows * vocab.div_ceil(32))?;
    }
    Ok(sizes)
}

/// Checks a tensor of (rows, vocab) that is read, and the rows that results are of.
pub(super) fn sources(
    name: &'static str,
    tensor: &TensorRef<'_>,
    dtypes: &[Dtype],
    indices: Option<&Array<'_, i32>>,
    results: usize,
) -> Result<Sizes, OpError> {
    check::rank(name, tensor, 2, "2: (rows, vocab)")?;
    check::dtype(name, tensor.dtype(), dtypes)?;
    check::innermost(name, tensor)?;
    let [sources, vocab] = [tensor.shape()[0], tensor.shape()[1]];
    if vocab >= 1 << 30 {
        return Err(OpError::Parameter { name: "vocab", got: vocab as f32, want: "below 2^30" });
    }
    let rows = indices.map_or(sources, Array::len);
    len("ids", results, rows)?;
    if let Some(indices) = indices.and_then(Array::as_host) {
        for (index, &value) in indices.iter().enumerate() {
            if !usize::try_from(value).is_ok_and(|value| value < sources) {
                let (value, most) = (i64::from(value), sources as i64 - 1);
                return Err(OpError::Entry { array: "indices", index, value, least: 0, most });
            }
        }
    }
    Ok(Sizes { sources, rows, vocab })
}

/// Checks a tensor of (rows, vocab) in f32 that is written.
pub(super) fn target(name: &'static str, tensor: &TensorMut<'_>, rows: usize, vocab: usize) -> Result<(), OpError> {
    let read = tensor.as_ref();
    check::rank(name, &read, 2, "2: (rows, vocab)")?;
    check::dtype(name, read.dtype(), &[Dtype::F32])?;
    check::innermost(name, &read)?;
    check::extent(name, &read, 0, "rows", rows)?;
    check::extent(name, &read, 1, "tokens", vocab)?;
    check::disjoint(name, tensor)
}

pub(super) fn per_row<T: Number>(name: &'static str, of: &PerRow<'_, T>, rows: usize) -> Result<(), OpError> {
    of.rows().map_or(Ok(()), |array| array.expect_len(name, rows))
}

pub(super) fn len(array: &'static str, len: usize, want: usize) -> Result<(), OpError> {
    if len == want { Ok(()) } else { Err(OpError::Len { array, len, want, exact: true }) }
}
