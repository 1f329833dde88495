//! The checks that the CPU and CUDA share.

use super::{BLOCK_STEP, DIM_STEP, IndexKeys, IndexQueries, MAX_DIM, MAX_HEADS, ScoresMut, TopKLists, Visible};
use crate::dtype::Dtype;
use crate::ops::{Array, OpError, check};
use crate::tensor::TensorRef;

/// Bytes of static shared memory that a kernel has.
const SHARED: usize = 48 * 1024;

/// Extents of scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScoreSizes {
    /// Rows of the queries.
    pub tokens: usize,
    /// Index heads.
    pub heads: usize,
    /// Of a head.
    pub dim: usize,
    /// Requests.
    pub requests: usize,
    /// Scores that a row holds: keys or blocks.
    pub columns: usize,
}

/// Extents of a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SelectSizes {
    /// Lists: query tokens times heads.
    pub rows: usize,
    /// Lists of a query token.
    pub heads: usize,
    /// Scores that a row holds.
    pub columns: usize,
    /// Entries that a list holds.
    pub capacity: usize,
}

/// Bytes of shared memory of the kernels of a shape: the queries of a token, whose rows are 64 bytes apart beyond their
/// length so that lanes read different banks, their weights, and for scores of blocks the largest of each of 8 warps.
fn shared_bytes(heads: usize, dim: usize) -> usize {
    heads.next_multiple_of(8) * (2 * dim + 64 + 4) + 4 * 8 * heads
}

/// Checks the arguments of [`index_scores`](super::index_scores).
///
/// # Errors
///
/// A tensor or array that does not fit.
pub fn check_index_scores(
    queries: &IndexQueries<'_>,
    weights: &TensorRef<'_>,
    keys: &IndexKeys<'_>,
    out: &ScoresMut<'_>,
) -> Result<ScoreSizes, OpError> {
    let sizes = inputs(queries, keys, out)?;
    check::rank("weights", weights, 2, "2: (qo tokens, index heads)")?;
    check::dtype("weights", weights.dtype(), &[Dtype::F32])?;
    check::extent("weights", weights, 0, "tokens", sizes.tokens)?;
    check::extent("weights", weights, 1, "index heads", sizes.heads)?;
    check::innermost("weights", weights)?;
    let columns = scores(out, &sizes, false)?;
    Ok(ScoreSizes { columns, ..sizes })
}

/// Checks the arguments of [`block_scores`](super::block_scores).
///
/// # Errors
///
/// A tensor or array that does not fit; a size of blocks that is no multiple of 32.
pub fn check_block_scores(
    queries: &IndexQueries<'_>,
    keys: &IndexKeys<'_>,
    block_size: usize,
    out: &ScoresMut<'_>,
) -> Result<ScoreSizes, OpError> {
    if block_size == 0 || !block_size.is_multiple_of(BLOCK_STEP) || block_size > 1 << 20 {
        let want = "a multiple of 32, up to 2^20; smaller blocks have no kernel, so score keys and combine them";
        return Err(OpError::Parameter { name: "block_size", got: block_size as f32, want });
    }
    let sizes = inputs(queries, keys, out)?;
    let columns = scores(out, &sizes, true)?;
    Ok(ScoreSizes { columns, ..sizes })
}

/// Checks the shape of index queries, for which kernels are compiled.
///
/// # Errors
///
/// Heads or a dimension that there is no kernel for.
pub fn check_shape(heads: usize, dim: usize) -> Result<(), OpError> {
    if !(1..=MAX_HEADS).contains(&heads) {
        return Err(OpError::Parameter { name: "index heads", got: heads as f32, want: "1 to 128" });
    }
    if dim == 0 || !dim.is_multiple_of(DIM_STEP) || dim > MAX_DIM {
        let want = "a multiple of 32, up to 256; pad queries and keys with zeros";
        return Err(OpError::Parameter { name: "the dimension of index heads", got: dim as f32, want });
    }
    if shared_bytes(heads, dim) > SHARED {
        let want =
            "at most 48 KiB (heads, rounded up to 8, times 2 dim + 100 bytes); score groups of heads and add them";
        return Err(OpError::Parameter {
            name: "bytes of shared memory for a token's index queries",
            got: shared_bytes(heads, dim) as f32,
            want,
        });
    }
    Ok(())
}

fn inputs(queries: &IndexQueries<'_>, keys: &IndexKeys<'_>, out: &ScoresMut<'_>) -> Result<ScoreSizes, OpError> {
    let q = &queries.q;
    check::rank("q", q, 3, "3: (qo tokens, index heads, dim)")?;
    check::dtype("q", q.dtype(), &[Dtype::F16, Dtype::Bf16])?;
    check::innermost("q", q)?;
    let (tokens, heads, dim) = (q.shape()[0], q.shape()[1], q.shape()[2]);
    check_shape(heads, dim)?;
    let of = keys.keys();
    check::dtype("index keys", of.dtype(), &[q.dtype()])?;
    let requests = match keys {
        IndexKeys::Ragged { kv_indptr, .. } => {
            check::rank("index keys", of, 2, "2: (key tokens, dim)")?;
            let short = OpError::Len { array: "kv_indptr", len: 0, want: 1, exact: false };
            kv_indptr.len().checked_sub(1).ok_or(short)?
        }
        IndexKeys::Paged { rows, kv_lens, .. } => {
            check::rank("index keys", of, 3, "3: (pages, slots of a page, dim)")?;
            let requests = rows.requests()?;
            kv_lens.expect_len("kv_lens", requests)?;
            requests
        }
    };
    check::extent("index keys", of, of.shape().len() - 1, "elements of a head", dim)?;
    check::innermost("index keys", of)?;
    queries.qo_indptr.expect_len("qo_indptr", requests + 1)?;
    if let Visible::Counts(counts) = &queries.visible {
        counts.expect_len("visible", tokens)?;
    }
    len("counts", out.counts.len(), tokens)?;
    check::status(out.status.as_ref())?;
    Ok(ScoreSizes { tokens, heads, dim, requests, columns: 0 })
}

/// Checks the tensor of scores; returns the extent of its rows.
fn scores(out: &ScoresMut<'_>, sizes: &ScoreSizes, by_head: bool) -> Result<usize, OpError> {
    let of = out.scores.as_ref();
    let (rank, want) = if by_head { (3, "3: (qo tokens, index heads, blocks)") } else { (2, "2: (qo tokens, keys)") };
    check::rank("scores", &of, rank, want)?;
    check::dtype("scores", of.dtype(), &[Dtype::F32])?;
    check::extent("scores", &of, 0, "tokens", sizes.tokens)?;
    if by_head {
        check::extent("scores", &of, 1, "index heads", sizes.heads)?;
    }
    check::innermost("scores", &of)?;
    check::disjoint("scores", &out.scores)?;
    columns(of.shape()[rank - 1])
}

/// Positions are below 2^30.
fn columns(columns: usize) -> Result<usize, OpError> {
    let most = 1 << 30;
    let wrong = OpError::Parameter { name: "scores of a row", got: columns as f32, want: "at most 2^30" };
    if columns <= most { Ok(columns) } else { Err(wrong) }
}

/// Checks the arguments of [`select_tokens`](super::select_tokens), whose scores have rank 2, and of
/// [`select_pages`](super::select_pages), whose scores have rank 3.
///
/// # Errors
///
/// A tensor or array that does not fit; more that is always chosen than a list holds.
pub fn check_select(
    scores: &TensorRef<'_>,
    rank: usize,
    counts: &Array<'_, i32>,
    [first, last]: [usize; 2],
    out: &TopKLists<'_>,
) -> Result<SelectSizes, OpError> {
    let want = if rank == 2 { "2: (rows, keys)" } else { "3: (qo tokens, heads, blocks)" };
    check::rank("scores", scores, rank, want)?;
    check::dtype("scores", scores.dtype(), &[Dtype::F32])?;
    check::innermost("scores", scores)?;
    let shape = scores.shape();
    let heads = if rank == 3 { shape[1] } else { 1 };
    let (rows, columns) = (shape[0] * heads, columns(shape[rank - 1])?);
    counts.expect_len("counts", shape[0])?;
    len("the lists' counts", out.counts.len(), rows)?;
    let capacity = out.lists.len().checked_div(rows).unwrap_or(0);
    len("lists", out.lists.len(), rows * capacity)?;
    if rows > 0 && capacity == 0 {
        return Err(OpError::Len { array: "lists", len: 0, want: rows, exact: false });
    }
    if first.saturating_add(last) > capacity && rows > 0 {
        let want = "at most what a list holds: choose fewer blocks always, or give longer lists";
        return Err(OpError::Parameter { name: "first + last", got: (first + last) as f32, want });
    }
    Ok(SelectSizes { rows, heads, columns, capacity })
}

fn len(array: &'static str, len: usize, want: usize) -> Result<(), OpError> {
    if len == want { Ok(()) } else { Err(OpError::Len { array, len, want, exact: true }) }
}
