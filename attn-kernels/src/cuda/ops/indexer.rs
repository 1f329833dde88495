//! Indexers: a launch for scores, and one for the choice.

use attn_core::dtype::Dtype;
use attn_core::indexer::{
    IndexKeys, IndexQueries, ScoreSizes, ScoresMut, TopKLists, Visible, check_block_scores, check_index_scores,
    check_select, check_shape,
};
use attn_core::ops::Array;
use attn_core::tensor::TensorRef;

use super::launch::OpLaunch;
use super::rows::page_rows;
use super::sampled_rows::{CTA_VOCAB, has_clusters};
use super::{Op, ctas, in_sixteens, module, stride};
use crate::cuda::{CudaError, CudaStream, Device};
use crate::launch::{
    FastDiv, IndexScoresParams, OP_THREADS, RowsParams, RowsPart, SAMPLE_CLUSTER, SCORE_UNIT, SELECT_THREADS,
    SelectParams, Strided,
};

/// Launches the kernel of [`attn_core::indexer::index_scores`], which defines the result.
///
/// # Errors
///
/// What does not fit, memory of the host, no kernel.
pub fn index_scores(
    stream: &CudaStream,
    queries: &IndexQueries<'_>,
    weights: &TensorRef<'_>,
    keys: &IndexKeys<'_>,
    out: &ScoresMut<'_>,
) -> Result<(), CudaError> {
    let sizes = check_index_scores(queries, weights, keys, out)?;
    scores(stream, queries, Some(weights), keys, None, sizes, out)
}

/// Launches the kernel of [`attn_core::indexer::block_scores`], which defines the result.
///
/// # Errors
///
/// What does not fit, memory of the host, no kernel.
pub fn block_scores(
    stream: &CudaStream,
    queries: &IndexQueries<'_>,
    keys: &IndexKeys<'_>,
    block_size: usize,
    out: &ScoresMut<'_>,
) -> Result<(), CudaError> {
    let sizes = check_block_scores(queries, keys, block_size, out)?;
    scores(stream, queries, None, keys, Some(block_size), sizes, out)
}

fn scores(
    stream: &CudaStream,
    queries: &IndexQueries<'_>,
    weights: Option<&TensorRef<'_>>,
    keys: &IndexKeys<'_>,
    block_size: Option<usize>,
    sizes: ScoreSizes,
    out: &ScoresMut<'_>,
) -> Result<(), CudaError> {
    let q = &queries.q;
    let scores = out.scores.as_ref();
    let at = |of: &TensorRef<'_>, dim| stride(of.shape(), of.strides(), dim);
    let unit = block_size.unwrap_or(SCORE_UNIT as usize);
    let units = if block_size.is_some() { sizes.columns } else { sizes.columns.div_ceil(unit) };
    let tiles = units.div_ceil(OP_THREADS as usize / 32).max(1);
    let mut launch = OpLaunch::default();
    let table = key_table(&mut launch, keys, sizes, out)?;
    let (pool, q_data) = (table.part[0].pool, launch.read_tensor("q", q)?);
    let params = IndexScoresParams {
        q: q_data,
        q_token: at(q, 0),
        q_head: at(q, 1),
        weights: weights.map_or(Ok(0), |weights| launch.read_tensor("weights", weights))?,
        weights_token: weights.map_or(0, |weights| at(weights, 0)),
        qo_indptr: launch.read("qo_indptr", &queries.qo_indptr)?,
        visible: match &queries.visible {
            Visible::Counts(counts) => launch.read("visible", counts)?,
            _ => 0,
        },
        scores: launch.write_tensor("scores", &out.scores)?,
        scores_token: at(&scores, 0),
        scores_head: if block_size.is_some() { at(&scores, 1) } else { 0 },
        counts: launch.write("counts", &out.counts)?,
        causal: i32::from(matches!(queries.visible, Visible::Causal)),
        columns: sizes.columns as i32,
        unit: unit as i32,
        tiles: tiles as i32,
        q_wide: i32::from(in_sixteens(q_data, 2, &[at(q, 0), at(q, 1)])),
        keys_wide: i32::from(in_sixteens(pool.data, 2, &[pool.token, pool.page])),
        keys: table,
    };
    let grid = ctas("tiles of index queries", sizes.tokens as u64 * tiles as u64, 1)?;
    let kernel = launch.ordered(stream, of_shape(q.dtype(), sizes.heads, sizes.dim, block_size.is_some()), 0)?;
    // SAFETY: the caller promised the memory of tensors and arrays when it made them, and their extents are checked;
    // the kernel checks what arrays say.
    unsafe { kernel.launch((grid, 1), OP_THREADS, 0, &params) }
}

/// The keys and their page table.
fn key_table<'a>(
    launch: &mut OpLaunch<'a>,
    keys: &IndexKeys<'a>,
    sizes: ScoreSizes,
    out: &ScoresMut<'a>,
) -> Result<RowsParams, CudaError> {
    let of = keys.keys();
    let at = |dim| stride(of.shape(), of.strides(), dim);
    let mut params = RowsParams {
        status: launch.write_if("status", out.status.as_ref())?,
        page_size: FastDiv::new(1),
        ..RowsParams::default()
    };
    let data = launch.read_tensor("index keys", of)?;
    let pool = match keys {
        IndexKeys::Ragged { kv_indptr, .. } => {
            params.indptr = launch.read("kv_indptr", kv_indptr)?;
            params.tokens = of.shape()[0] as i64;
            Strided { data, token: at(0), ..Strided::default() }
        }
        IndexKeys::Paged { rows, kv_lens, .. } => {
            page_rows(launch, &mut params, rows)?;
            params.positions = launch.read("kv_lens", kv_lens)?;
            params.page_size = FastDiv::new(of.shape()[1] as u32);
            // pages without slots are no pages
            params.num_pages = if of.shape()[1] == 0 { 0 } else { of.shape()[0] as i64 };
            Strided { data, token: at(1), page: at(0), ..Strided::default() }
        }
    };
    params.part[0] = RowsPart { pool, dim: sizes.dim as i32, ..RowsPart::default() };
    params.num_requests = i32::try_from(sizes.requests).unwrap_or(i32::MAX);
    Ok(params)
}

/// Launches the kernel of [`attn_core::indexer::select_tokens`], which defines the result. A count beyond the row
/// counts as the whole row.
///
/// # Errors
///
/// What does not fit, memory of the host, no kernel.
pub fn select_tokens(
    stream: &CudaStream,
    scores: &TensorRef<'_>,
    counts: &Array<'_, i32>,
    out: &TopKLists<'_>,
) -> Result<(), CudaError> {
    select(stream, scores, 2, counts, [0, 0], out)
}

/// Launches the kernel of [`attn_core::indexer::select_pages`], which defines the result. A count beyond the row counts
/// as the whole row.
///
/// # Errors
///
/// What does not fit, memory of the host, no kernel.
pub fn select_pages(
    stream: &CudaStream,
    scores: &TensorRef<'_>,
    counts: &Array<'_, i32>,
    first: usize,
    last: usize,
    out: &TopKLists<'_>,
) -> Result<(), CudaError> {
    select(stream, scores, 3, counts, [first, last], out)
}

fn select(
    stream: &CudaStream,
    scores: &TensorRef<'_>,
    rank: usize,
    counts: &Array<'_, i32>,
    [first, last]: [usize; 2],
    out: &TopKLists<'_>,
) -> Result<(), CudaError> {
    let sizes = check_select(scores, rank, counts, [first, last], out)?;
    let at = |dim| stride(scores.shape(), scores.strides(), dim);
    let (token, head) = (at(0), if rank == 3 { at(1) } else { 0 });
    let mut launch = OpLaunch::default();
    let data = launch.read_tensor("scores", scores)?;
    let params = SelectParams {
        scores: data,
        scores_token: token,
        scores_head: head,
        counts: launch.read("counts", counts)?,
        lists: launch.write("lists", &out.lists)?,
        lens: launch.write("the lists' counts", &out.counts)?,
        heads: sizes.heads as i32,
        columns: sizes.columns as i32,
        // positions are below 2^30: no list is longer
        capacity: i32::try_from(sizes.capacity).unwrap_or(i32::MAX),
        first: first as i32,
        last: last as i32,
        wide: i32::from(in_sixteens(data, 4, &[token, head])),
    };
    let device = stream.device();
    let cluster = has_clusters(device) && shares_rows(sizes.columns, sizes.rows, device.multiprocessors());
    let grid = ctas("lists", sizes.rows as u64 * if cluster { u64::from(SAMPLE_CLUSTER) } else { 1 }, 1)?;
    let kernel = launch.ordered(stream, Op::Select { cluster }, 0)?;
    // SAFETY: the caller promised the memory of tensors and arrays when it made them, and their extents are checked.
    unsafe { kernel.launch((grid, 1), SELECT_THREADS, 0, &params) }
}

/// Whether the CTAs of a cluster share a row: long rows, of which there are few.
fn shares_rows(columns: usize, rows: usize, multiprocessors: u32) -> bool {
    columns > CTA_VOCAB && 4 * rows < multiprocessors as usize
}

/// Compiles and loads the kernels for index queries of a type and shape, so that the first call can be captured.
///
/// # Errors
///
/// No cubin, or one that does not load.
pub fn prepare_indexer(device: &Device, of: Dtype, heads: usize, dim: usize) -> Result<(), CudaError> {
    check_shape(heads, dim)?;
    [false, true].into_iter().try_for_each(|blocks| module::prepare(device, of_shape(of, heads, dim, blocks)))?;
    let clusters = if has_clusters(device) { &[false, true][..] } else { &[false] };
    clusters.iter().try_for_each(|&cluster| module::prepare(device, Op::Select { cluster }))
}

fn of_shape(of: Dtype, heads: usize, dim: usize, blocks: bool) -> Op {
    Op::IndexScores { of, heads: heads as u32, dim: dim as u32, blocks }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_shares_long_rows_unless_rows_fill_the_device() {
        assert!(shares_rows(65_536, 1, 132) && shares_rows(8193, 32, 132));
        assert!(!shares_rows(8192, 1, 132) && !shares_rows(65_536, 33, 132));
    }
}
