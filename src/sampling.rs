//! Sampling: from logits to the next token of each row, on the CPU and on CUDA with the same bits.
//!
//! [`sample`] applies penalties, a token mask and the temperature, filters by top-k, top-p and min-p, and draws, in one
//! launch that allocates nothing and waits for nothing. Parameters are one value for all rows or an array in device
//! memory ([`PerRow`]), so that a captured graph serves requests that change. Random numbers depend on a row's seed and
//! position alone; the kernel advances the position, so that a replayed graph draws anew. [`prepare`] loads the kernels
//! before a capture.
//!
//! [`verify_chain`] and [`verify_tree`] verify drafts of speculative decoding, likewise in one launch.
//!
//! ```
//! use attn::{Engine, ops::DeviceArray, sampling::{SampleOut, SamplingParams, sample}};
//!
//! let engine = Engine::cpu(); // or `Engine::auto()?`
//! let stream = engine.stream()?;
//! let logits = engine.upload(&[2.0f32, 1.0, -1.0, 0.5, /* row 1 */ f32::NAN, 0.0, 3.0, 2.9])?;
//!
//! // two requests: seeds, and the positions of the tokens that they draw next
//! let seeds = DeviceArray::upload(&engine, &[17u64, 18])?;
//! let mut positions = DeviceArray::upload(&engine, &[5i64, 0])?;
//! let mut ids = DeviceArray::zeroed(&engine, 2)?;
//! let params = SamplingParams {
//!     temperature: 0.7.into(),
//!     top_k: 2.into(),
//!     seeds: attn::sampling::PerRow::Rows(seeds.array()),
//!     ..SamplingParams::default()
//! };
//! let logits = logits.tensor(&[2, 4])?;
//! sample(&stream, &logits, &params, &mut SampleOut::new(ids.array_mut(), positions.array_mut()))?;
//! let ids = ids.to_vec()?;
//! assert!([0, 1].contains(&ids[0]) && [2, 3].contains(&ids[1]));
//! assert_eq!(positions.to_vec()?, [6, 1]);
//! # Ok::<(), attn::Error>(())
//! ```

pub use attn_core::sampling::{
    ChainDrafts, ChainOut, FilterOrder, LogProbs, MAX_NODES, MAX_TOP, Penalties, PerRow, SampleOut, SamplingParams,
    TopLogProbs, TreeDrafts, TreeOut,
};

use attn_core::sampling::{FilterOut, Source};

use crate::backend::{on_backend, try_backend};
use crate::{Dtype, Engine, Error, Stream, TensorMut, TensorRef};

/// Draws a token of each row of logits: (rows, vocab) in f16, bf16 or f32, with any stride between rows.
///
/// The token is the first, by ids, up to which the masses of kept tokens exceed `u * kept`, where u is uniform in
/// [0, 1) with 64 bits, by Philox-4x32-10 of (seed, position). So its distribution is that of the filters to 2^-36 of
/// the likeliest token's probability a token.
///
/// # Errors
///
/// Tensors or arrays of contradicting shapes, or in other memory than the stream; a parameter for all rows that is out
/// of its range; penalties without counts; on CUDA no kernel.
pub fn sample(
    stream: &Stream,
    logits: &TensorRef<'_>,
    params: &SamplingParams<'_>,
    out: &mut SampleOut<'_>,
) -> Result<(), Error> {
    try_backend!(&stream.backend, {
        Cpu(()) => attn_core::sampling::sample(Source::Logits, logits, params, out),
        Cuda(stream) => attn_kernels::cuda::ops::sample(stream, Source::Logits, logits, params, out),
    })
}

/// Samples from probabilities, which need not sum to 1: (rows, vocab) in f16, bf16 or f32. What is not a positive
/// normal number counts as 0; if there is +inf, such tokens share the probability.
///
/// # Errors
///
/// A temperature or penalties, which are for logits; the errors of [`sample`].
pub fn sample_probs(
    stream: &Stream,
    probs: &TensorRef<'_>,
    params: &SamplingParams<'_>,
    out: &mut SampleOut<'_>,
) -> Result<(), Error> {
    try_backend!(&stream.backend, {
        Cpu(()) => attn_core::sampling::sample(Source::Probs, probs, params, out),
        Cuda(stream) => attn_kernels::cuda::ops::sample(stream, Source::Probs, probs, params, out),
    })
}

/// Writes the probabilities of logits, (rows, vocab) in f32, after token mask, temperature and filters: a softmax. What
/// is less likely than 2^-36 of the likeliest token is 0. Seeds are not read.
///
/// # Errors
///
/// Penalties, which need counts; the errors of [`sample`].
pub fn softmax(
    stream: &Stream,
    logits: &TensorRef<'_>,
    params: &SamplingParams<'_>,
    probs: TensorMut<'_>,
) -> Result<(), Error> {
    kept(stream, Source::Logits, logits, params, FilterOut::Probs, probs)
}

/// Writes probabilities normalised after the filters, top-k, top-p and min-p: (rows, vocab) in f32.
///
/// # Errors
///
/// The errors of [`softmax`].
pub fn renorm_probs(
    stream: &Stream,
    probs: &TensorRef<'_>,
    params: &SamplingParams<'_>,
    out: TensorMut<'_>,
) -> Result<(), Error> {
    kept(stream, Source::Probs, probs, params, FilterOut::Probs, out)
}

/// Writes the logits that the filters keep, -inf in place of others: (rows, vocab) in f32. Top-k counts every token
/// that is not -inf.
///
/// # Errors
///
/// The errors of [`softmax`].
pub fn mask_logits(
    stream: &Stream,
    logits: &TensorRef<'_>,
    params: &SamplingParams<'_>,
    out: TensorMut<'_>,
) -> Result<(), Error> {
    kept(stream, Source::Logits, logits, params, FilterOut::Logits, out)
}

fn kept(
    stream: &Stream,
    source: Source,
    tensor: &TensorRef<'_>,
    params: &SamplingParams<'_>,
    what: FilterOut,
    out: TensorMut<'_>,
) -> Result<(), Error> {
    let mut out = out;
    try_backend!(&stream.backend, {
        Cpu(()) => attn_core::sampling::keep(source, tensor, params, what, &mut out),
        Cuda(stream) => attn_kernels::cuda::ops::keep_filtered(stream, source, tensor, params, what, &out),
    })
}

/// Verifies chains of drafts: draft i is emitted with probability `min(1, target / draft)`; the first that is not is
/// replaced by a draw from `max(target - draft, 0)`; behind all drafts follows a draw from the last target. On CUDA it
/// is one launch, which can be captured after [`prepare_verify`].
///
/// # Errors
///
/// Tensors of contradicting shapes, or in other memory than the stream; in host memory a draft that is neither -1 nor
/// in the vocabulary; on CUDA no kernel.
pub fn verify_chain(stream: &Stream, drafts: &ChainDrafts<'_>, out: &mut ChainOut<'_>) -> Result<(), Error> {
    try_backend!(&stream.backend, {
        Cpu(()) => attn_core::sampling::verify_chain(drafts, out),
        Cuda(stream) => attn_kernels::cuda::ops::verify_chain(stream, drafts, out),
    })
}

/// Verifies trees of drafts. Behind an accepted node one random number goes through its children: the first up to which
/// their probabilities add up to it is accepted. If none is, a token is drawn from the others.
///
/// # Errors
///
/// In host memory an index out of range; a threshold that is not in (0, 1], no node or more than [`MAX_NODES`]; the
/// errors of [`verify_chain`].
pub fn verify_tree(stream: &Stream, drafts: &TreeDrafts<'_>, out: &mut TreeOut<'_>) -> Result<(), Error> {
    try_backend!(&stream.backend, {
        Cpu(()) => attn_core::sampling::verify_tree(drafts, out),
        Cuda(stream) => attn_kernels::cuda::ops::verify_tree(stream, drafts, out),
    })
}

/// Prepares sampling from logits of a type, so that the first call can be captured: on CUDA it compiles and loads the
/// kernels.
///
/// # Errors
///
/// Neither a kernel nor a compiler.
pub fn prepare(engine: &Engine, logits: Dtype) -> Result<(), Error> {
    prepare_source(engine, Source::Logits, logits)
}

/// Prepares [`sample_probs`].
///
/// # Errors
///
/// The errors of [`prepare`].
pub fn prepare_probs(engine: &Engine, probs: Dtype) -> Result<(), Error> {
    prepare_source(engine, Source::Probs, probs)
}

/// Prepares [`verify_chain`] and [`verify_tree`].
///
/// # Errors
///
/// The errors of [`prepare`].
pub fn prepare_verify(engine: &Engine) -> Result<(), Error> {
    on_backend!(&engine.backend, {
        Cpu(()) => Ok(()),
        Cuda(device) => Ok(attn_kernels::cuda::ops::prepare_verify(device)?),
    })
}

fn prepare_source(engine: &Engine, source: Source, from: Dtype) -> Result<(), Error> {
    on_backend!(&engine.backend, {
        Cpu(()) => Ok(()),
        Cuda(device) => Ok(attn_kernels::cuda::ops::prepare_sampling(device, source, from)?),
    })
}
