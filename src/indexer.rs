//! Indexers of sparse attention: they score keys for each query, and choose those that attention reads.
//!
//! [`index_scores`] is the lightning indexer of DeepSeek-V3.2: scores of keys for 64 small heads together.
//! [`select_tokens`] writes the best keys as the lists of a `token_list`. [`block_scores`] scores blocks of keys for
//! each index head, as MiniMax-M3 does, and [`select_pages`] writes the best as the lists of a `page_list`. All run on
//! the CPU and on CUDA, where each is one launch that allocates nothing and waits for nothing, and can be captured after
//! [`prepare`]: grids depend on the extents of tensors, and lengths are read from device memory.
//!
//! ```
//! use attn::{TensorContent, indexer::*, ops::Numbers, prelude::*, stock::{Causal, TokenList}};
//!
//! // one request with 2 queries and 40 keys; index heads of 32 elements
//! let engine = Engine::cpu(); // or `Engine::auto()?`
//! let stream = engine.stream()?;
//! let (tokens, index_heads, dim, keys, max_tokens) = (2, 4, 32, 40, 3);
//! let q = engine.upload(&vec![bf16::ONE; tokens * index_heads * dim])?;
//! let weights = engine.upload(&vec![0.5f32; tokens * index_heads])?;
//! // the longer a key, the better; the last is the longest
//! let index_keys: Vec<bf16> = (0..keys * dim).map(|i| bf16::from_f32((i / dim) as f32)).collect();
//! let index_keys = engine.upload(&index_keys)?;
//! let (qo_indptr, kv_indptr) = (Numbers::upload(&engine, &[0, 2])?, Numbers::upload(&engine, &[0, 40])?);
//!
//! let queries = IndexQueries {
//!     q: q.tensor(&[tokens, index_heads, dim])?,
//!     qo_indptr: qo_indptr.array(),
//!     visible: Visible::Causal,
//! };
//! let of_keys = IndexKeys::Ragged { keys: index_keys.tensor(&[keys, dim])?, kv_indptr: kv_indptr.array() };
//! let mut scores = engine.alloc(Dtype::F32, tokens * keys)?;
//! let mut counts = Numbers::zeroed(&engine, tokens)?;
//! let mut out = ScoresMut::new(scores.tensor_mut(&[tokens, keys])?, counts.array_mut());
//! index_scores(&stream, &queries, &weights.tensor(&[tokens, index_heads])?, &of_keys, &mut out)?;
//!
//! let (mut lists, mut lens) = (Numbers::zeroed(&engine, tokens * max_tokens)?, Numbers::zeroed(&engine, tokens)?);
//! let mut out = Lists::new(lists.array_mut(), lens.array_mut());
//! select_tokens(&stream, &scores.tensor(&[tokens, keys])?, &counts.array(), &mut out)?;
//! assert_eq!(lists.to_vec()?, [36, 37, 38, 37, 38, 39]); // the first query does not see the last key
//! assert_eq!(lens.to_vec()?, [3, 3]);
//!
//! // an attention that is planned for the longest lists reads them at its next run
//! let list = TokenList {
//!     max_tokens: max_tokens as i32,
//!     tokens: Tensor2::new(vec![0, 1, 2, 0, 1, 2], [tokens, max_tokens])?,
//!     count: [3, 3].into(),
//! };
//! let heads = Heads { qo: 1, kv: 1, head_dim: 8 };
//! let attention = engine.attention(&compose!(Causal, list), heads, Dtypes::f32())?;
//! attention.set_tensor(&stream, "tokens", &TensorContent::host(&lists.to_vec()?))?;
//! attention.set_tensor(&stream, "count", &TensorContent::host(&lens.to_vec()?))?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub use attn_core::indexer::{
    BLOCK_STEP, DIM_STEP, IndexKeys, IndexQueries, Lists, MAX_DIM, MAX_HEADS, ScoresMut, Visible,
};

use crate::{
    Dtype, Engine, Error, Stream, TensorRef,
    backend::{on_backend, try_backend},
    ops::Array,
};

/// Scores of keys: `scores[t, s] = sum_j weights[t, j] max(q[t, j] . k[s], 0)`. `weights` is (qo tokens, index heads) in
/// f32, with every factor of the model. Products of f16 or bf16 are summed in f32, in the order of a kernel.
///
/// # Errors
///
/// Tensors or arrays of contradicting shapes, or in other memory than the stream; index heads whose dimension is no
/// multiple of 32 or above 256, more than 128 of them, or queries of more than 48 KiB a token; on the CPU a key without
/// a place and more keys than a row of scores holds (CUDA counts them in `status`); on CUDA no kernel.
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
/// As [`index_scores`]; a size of blocks that is no multiple of 32.
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
    out: &mut Lists<'_>,
) -> Result<(), Error> {
    try_backend!(&stream.backend, {
        Cpu(()) => attn_core::indexer::select_tokens(scores, counts, out),
        Cuda(stream) => attn_kernels::cuda::ops::select_tokens(stream, scores, counts, out),
    })
}

/// Writes for each query token and head of scores, (qo tokens, heads, blocks) in f32, the largest blocks as
/// [`select_tokens`]: `pages` and `count` of a `page_list` of as many requests as there are query tokens, and of as many
/// KV heads as there are heads. The first `first` and the last `last` blocks of a row are always chosen, and count among
/// those of its list.
///
/// # Errors
///
/// As [`select_tokens`]; more blocks that are always chosen than a list holds.
pub fn select_pages(
    stream: &Stream,
    scores: &TensorRef<'_>,
    counts: &Array<'_, i32>,
    first: usize,
    last: usize,
    out: &mut Lists<'_>,
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
