//! Indexers of sparse attention: they score keys for each query, and choose those that attention reads.
//!
//! [`index_scores`] is the lightning indexer of DeepSeek-V3.2, and [`select_tokens`] writes the best keys as the lists
//! of a `token_list`. [`block_scores`] scores blocks of keys for each index head, as MiniMax-M3 does, and
//! [`select_pages`] writes the best as the lists of a `page_list`. On CUDA each is one launch, which can be captured
//! after [`prepare`]: grids depend on the extents of tensors, and lengths are read from device memory.

pub use attn_core::indexer::{
    BLOCK_STEP, DIM_STEP, IndexKeys, IndexQueries, MAX_DIM, MAX_HEADS, ScoresMut, TopKLists, Visible,
};

use crate::backend::{on_backend, try_backend};
use crate::ops::Array;
use crate::{Dtype, Engine, Error, Stream, TensorRef};

/// Scores of keys: `scores[t, s] = sum_j weights[t, j] max(q[t, j] . k[s], 0)`. `weights` is (qo tokens, index heads)
/// in f32, with every factor of the model. Products of f16 or bf16 are summed in f32, in the order of a kernel.
///
/// # Errors
///
/// Tensors or arrays of contradicting shapes, or in other memory than the stream; index heads whose dimension is no
/// multiple of 32 or above 256, more than 128 of them, or queries of more than 48 KiB a token; on the CPU a key without
/// a slot and more keys than a row of scores holds (CUDA counts them in `status`); on CUDA no kernel.
pub fn index_scores(
    stream: &Stream,
    queries: &IndexQueries<'_>,
    weights: &TensorRef<'_>,
    keys: &IndexKeys<'_>,
    out: &mut ScoresMut<'_>,
) -> Result<(), Error> {
    try_backend!(&stream.backend, {
        Cpu(()) => attn_core::indexer::index_scores(queries, weights, keys, out),
        Cuda(stream) => attn_kernels::cuda::ops::index_scores(stream, queries, weights, keys, out),
    })
}

/// Scores of blocks: `scores[t, g, b] = max of q[t, g] . k[s]` over the visible keys of block b, the positions from
/// `b * block_size` on.
///
/// # Errors
///
/// A size of blocks that is no multiple of 32; the errors of [`index_scores`].
pub fn block_scores(
    stream: &Stream,
    queries: &IndexQueries<'_>,
    keys: &IndexKeys<'_>,
    block_size: usize,
    out: &mut ScoresMut<'_>,
) -> Result<(), Error> {
    try_backend!(&stream.backend, {
        Cpu(()) => attn_core::indexer::block_scores(queries, keys, block_size, out),
        Cuda(stream) => attn_kernels::cuda::ops::block_scores(stream, queries, keys, block_size, out),
    })
}

/// Writes for each row of scores, (rows, keys) in f32, the positions of the largest in rising order: as many as a list
/// holds, `tokens` and `count` of a `token_list`. Of equal scores the lower positions are chosen. NaN and -inf never
/// are. `counts` is that of the scores; what is behind it is not read.
///
/// # Errors
///
/// Tensors or arrays of contradicting shapes, or in other memory than the stream; on the CPU a count beyond the row; on
/// CUDA no kernel.
pub fn select_tokens(
    stream: &Stream,
    scores: &TensorRef<'_>,
    counts: &Array<'_, i32>,
    out: &mut TopKLists<'_>,
) -> Result<(), Error> {
    try_backend!(&stream.backend, {
        Cpu(()) => attn_core::indexer::select_tokens(scores, counts, out),
        Cuda(stream) => attn_kernels::cuda::ops::select_tokens(stream, scores, counts, out),
    })
}

/// Writes for each query token and head of scores, (qo tokens, heads, blocks) in f32, the largest blocks as
/// [`select_tokens`]: `pages` and `count` of a `page_list` of as many requests as there are query tokens, and of as
/// many KV heads as there are heads. The first `first` and the last `last` blocks of a row are always chosen, and count
/// among those of its list.
///
/// # Errors
///
/// More blocks that are always chosen than a list holds; the errors of [`select_tokens`].
pub fn select_pages(
    stream: &Stream,
    scores: &TensorRef<'_>,
    counts: &Array<'_, i32>,
    first: usize,
    last: usize,
    out: &mut TopKLists<'_>,
) -> Result<(), Error> {
    try_backend!(&stream.backend, {
        Cpu(()) => attn_core::indexer::select_pages(scores, counts, first, last, out),
        Cuda(stream) => attn_kernels::cuda::ops::select_pages(stream, scores, counts, first, last, out),
    })
}

/// Prepares an indexer of queries of this type and shape, so that the first call can be captured: on CUDA it compiles
/// and loads the kernels.
///
/// # Errors
///
/// Neither a kernel nor a compiler.
pub fn prepare(engine: &Engine, of: Dtype, heads: usize, dim: usize) -> Result<(), Error> {
    on_backend!(&engine.backend, {
        Cpu(()) => Ok(()),
        Cuda(device) => Ok(attn_kernels::cuda::ops::prepare_indexer(device, of, heads, dim)?),
    })
}
