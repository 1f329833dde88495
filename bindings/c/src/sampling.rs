//! Sampling: tokens of logits.

use attn::sampling::{FilterOrder, LogProbs, Penalties, SampleOut, SamplingParams, TopLogProbs};
use attn::{Dtype, Error, Stream, TensorMut, TensorRef, sampling};
use attn_core::sampling::Source;

use crate::arrays::{Arrays, AttnPerRow};
use crate::engine::AttnEngine;
use crate::input::{Versioned, handle, member, versioned};
use crate::memory::Memory;
use crate::status::{AttnStatus, Failure, call};
use crate::stream::AttnStream;
use crate::tensor::AttnTensor;

/// How top-k and top-p combine.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttnFilterOrder {
    /// Top-p keeps a share of what top-k has kept.
    TopKFirst = 0,
    /// Both look at the whole distribution.
    Joint = 1,
}

/// Of which distribution log-probabilities are.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttnLogProbs {
    /// After penalties, token mask and temperature, before the filters.
    Scaled = 0,
    /// After the filters: what the token was drawn from.
    Kept = 1,
}

/// What tokens are drawn from. Zero it, then set `size` and what differs from zero.
///
/// Arrays are in memory of the device and have an entry for each row of the results.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct AttnSampling {
    /// `sizeof(AttnSampling)`.
    pub size: usize,
    /// `rows` entries: the row of logits that each row of the results is drawn from; null: its own.
    pub indices: *const i32,
    /// Entries of `indices`; 0 where it is null.
    pub rows: usize,
    /// For each row `ceil(vocab / 32)` words, of which bit `i % 32` of word `i / 32` is 1 if token i is allowed; null:
    /// all are.
    pub token_mask: *const u32,
    /// Logits are divided by it: 1 leaves them. Below 0, and 0 in an array: the likeliest token. A value of 0 is
    /// refused for logits; for probabilities it is 0 or 1.
    pub temperature: AttnPerRow<f32>,
    /// Keeps the k likeliest tokens; 0: off.
    pub top_k: AttnPerRow<i32>,
    /// Keeps the fewest likeliest tokens whose probabilities sum to at least p, and one at least. 1, and a value of 0:
    /// off.
    pub top_p: AttnPerRow<f32>,
    /// Keeps tokens that are at least so many times as likely as the likeliest; 0: off.
    pub min_p: AttnPerRow<f32>,
    /// The seed of random numbers: rows with the same seed and position draw with the same number.
    pub seeds: AttnPerRow<u64>,
    /// Logits of tokens that occurred are divided by it above 0, and multiplied below. 1, and a value of 0: off. This
    /// and the other penalties need `AttnSampleOut.counts`.
    pub repetition: AttnPerRow<f32>,
    /// What is subtracted from logits of tokens that were drawn.
    pub presence: AttnPerRow<f32>,
    /// What is subtracted for each time that a token was drawn.
    pub frequency: AttnPerRow<f32>,
    /// An `AttnFilterOrder`.
    pub order: u32,
    /// An `AttnLogProbs`.
    pub log_probs: u32,
}

// SAFETY: its first field is its size, and all fields are numbers and pointers.
unsafe impl Versioned for AttnSampling {
    const NAME: &'static str = "AttnSampling";
    const FIRST_SIZE: usize = size_of::<AttnSampling>();
}

/// What sampling writes, in memory of the device. Zero it, then set `size` and what differs from zero.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct AttnSampleOut {
    /// `sizeof(AttnSampleOut)`.
    pub size: usize,
    /// (rows): the tokens; -1 for a row without an allowed one.
    pub ids: *mut i32,
    /// (rows): the positions whose random numbers are drawn with. Each is advanced by 1, on the device too.
    pub positions: *mut i64,
    /// (rows, vocab): how often each token was drawn, plus 2^31 if it is in the prompt; the token is counted. Or null.
    pub counts: *mut u32,
    /// (rows): the natural log-probability of the token; or null.
    pub log_probs: *mut f32,
    /// (rows, vocab) in f32, if its data is not null: the probabilities that the token was drawn from.
    pub probs: AttnTensor,
    /// (rows, `top_count`): the likeliest tokens in falling order, -1 where there are fewer; or null.
    pub top_ids: *mut i32,
    /// (rows, `top_count`): their natural log-probabilities, before the filters.
    pub top_log_probs: *mut f32,
    /// The likeliest tokens of a row that are written: 1 to 64; 0 where both are null.
    pub top_count: usize,
}

// SAFETY: its first field is its size, and all fields are numbers and pointers.
unsafe impl Versioned for AttnSampleOut {
    const NAME: &'static str = "AttnSampleOut";
    const FIRST_SIZE: usize = size_of::<AttnSampleOut>();
}

/// The rows of results, and the tokens of each. Another rank is refused by what samples.
type Sizes = [usize; 2];

impl AttnSampling {
    fn sizes(&self, from: &TensorRef<'_>) -> Sizes {
        let [sources, vocab] = [0, 1].map(|dim| from.shape().get(dim).copied().unwrap_or(0));
        [if self.has_indices() { self.rows } else { sources }, vocab]
    }

    fn has_indices(&self) -> bool {
        !self.indices.is_null() || self.rows > 0
    }

    /// The parameters, of logits or of probabilities.
    ///
    /// # Safety
    ///
    /// The conditions of [`Arrays::read`], for all arrays.
    unsafe fn params<'a>(
        &self,
        arrays: &mut Arrays<'_>,
        [rows, vocab]: Sizes,
        source: Source,
    ) -> Result<SamplingParams<'a>, Failure> {
        if source == Source::Logits && self.temperature.array.is_null() && self.temperature.value == 0.0 {
            return Err(Failure::argument(
                "AttnSampling.temperature is 0: set 1 to leave logits as they are, and -1 for the likeliest token",
            ));
        }
        let has = |of: &AttnPerRow<f32>| of.value != 0.0 || !of.array.is_null();
        let has_penalties = [&self.repetition, &self.presence, &self.frequency].into_iter().any(has);
        let orders = [FilterOrder::TopKFirst, FilterOrder::Joint];
        let log_probs = [LogProbs::Scaled, LogProbs::Kept];
        let words = rows.saturating_mul(vocab.div_ceil(32));
        // SAFETY: the caller guarantees it.
        unsafe {
            Ok(SamplingParams {
                temperature: arrays.per_row(self.temperature, rows, 1.0, "AttnSampling.temperature")?,
                top_k: arrays.per_row(self.top_k, rows, 0, "AttnSampling.top_k")?,
                top_p: arrays.per_row(self.top_p, rows, 1.0, "AttnSampling.top_p")?,
                min_p: arrays.per_row(self.min_p, rows, 0.0, "AttnSampling.min_p")?,
                order: member(self.order, &orders, "AttnSampling.order")?,
                penalties: match has_penalties {
                    false => None,
                    true => Some(Penalties {
                        repetition: arrays.per_row(self.repetition, rows, 1.0, "AttnSampling.repetition")?,
                        presence: arrays.per_row(self.presence, rows, 0.0, "AttnSampling.presence")?,
                        frequency: arrays.per_row(self.frequency, rows, 0.0, "AttnSampling.frequency")?,
                    }),
                },
                token_mask: match self.token_mask.is_null() {
                    true => None,
                    false => Some(arrays.read(self.token_mask, words, "AttnSampling.token_mask")?),
                },
                seeds: arrays.per_row(self.seeds, rows, 0, "AttnSampling.seeds")?,
                indices: match self.has_indices() {
                    false => None,
                    true => Some(arrays.read(self.indices, rows, "AttnSampling.indices")?),
                },
                log_probs: member(self.log_probs, &log_probs, "AttnSampling.log_probs")?,
            })
        }
    }
}

impl AttnSampleOut {
    unsafe fn probs<'a>(&self, memory: &Memory) -> Result<Option<TensorMut<'a>>, Failure> {
        match self.probs.data.is_null() {
            true => Ok(None),
            // SAFETY: the caller guarantees it.
            false => unsafe { self.probs.write(memory, "AttnSampleOut.probs") }.map(Some),
        }
    }

    /// What is written but for probabilities.
    ///
    /// # Safety
    ///
    /// The conditions of [`Arrays::write`], for all arrays.
    unsafe fn arrays<'a>(&self, arrays: &mut Arrays<'_>, [rows, vocab]: Sizes) -> Result<SampleOut<'a>, Failure> {
        let has_top = self.top_count > 0 || !self.top_ids.is_null() || !self.top_log_probs.is_null();
        let of_top = rows.saturating_mul(self.top_count);
        // SAFETY: the caller guarantees it.
        unsafe {
            Ok(SampleOut {
                ids: arrays.write(self.ids, rows, "AttnSampleOut.ids")?,
                positions: arrays.write(self.positions, rows, "AttnSampleOut.positions")?,
                counts: match self.counts.is_null() {
                    true => None,
                    false => Some(arrays.write(self.counts, rows.saturating_mul(vocab), "AttnSampleOut.counts")?),
                },
                log_probs: match self.log_probs.is_null() {
                    true => None,
                    false => Some(arrays.write(self.log_probs, rows, "AttnSampleOut.log_probs")?),
                },
                probs: None,
                top: match has_top {
                    false => None,
                    true => Some(TopLogProbs {
                        ids: arrays.write(self.top_ids, of_top, "AttnSampleOut.top_ids")?,
                        log_probs: arrays.write(self.top_log_probs, of_top, "AttnSampleOut.top_log_probs")?,
                        count: self.top_count,
                    }),
                },
            })
        }
    }
}

/// Draws from logits or probabilities.
///
/// # Safety
///
/// The caller's pointers, tensors and arrays.
unsafe fn draw(
    source: Source,
    stream: *const AttnStream,
    from: *const AttnTensor,
    params: *const AttnSampling,
    out: *const AttnSampleOut,
) -> Result<(), Failure> {
    // SAFETY: the caller guarantees it.
    unsafe {
        let AttnStream { stream, memory } = handle(stream, "stream")?;
        let from = handle(from, source.name())?.read(memory, source.name())?;
        let (params, out) = (versioned(params)?, versioned(out)?);
        let (sizes, probs) = (params.sizes(&from), out.probs(memory)?);
        let mut arrays = Arrays::new(memory);
        arrays.add(source.name(), from.reach(), false)?;
        if let Some(probs) = &probs {
            arrays.add("AttnSampleOut.probs", probs.reach(), true)?;
        }
        let params = params.params(&mut arrays, sizes, source)?;
        let mut out = out.arrays(&mut arrays, sizes)?;
        out.probs = probs;
        match source {
            Source::Logits => Ok(sampling::sample(stream, &from, &params, &mut out)?),
            Source::Probs => Ok(sampling::sample_probs(stream, &from, &params, &mut out)?),
        }
    }
}

/// Draws a token of each row of logits: (rows, vocab) in f16, bf16 or f32. Outputs share no memory with each other or
/// with an input. On a CUDA device it launches and returns, as a run does; `attn_sampling_prepare` comes before a
/// capture.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn attn_sample(
    stream: *const AttnStream,
    logits: *const AttnTensor,
    params: *const AttnSampling,
    out: *const AttnSampleOut,
) -> AttnStatus {
    // SAFETY: the caller's pointers, tensors and arrays.
    call(|| unsafe { draw(Source::Logits, stream, logits, params, out) })
}

/// Draws a token of each row of probabilities, which need not sum to 1. They have neither temperature nor penalties.
/// Otherwise as `attn_sample`, after `attn_sampling_prepare_probs`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn attn_sample_probs(
    stream: *const AttnStream,
    probs: *const AttnTensor,
    params: *const AttnSampling,
    out: *const AttnSampleOut,
) -> AttnStatus {
    // SAFETY: the caller's pointers, tensors and arrays.
    call(|| unsafe { draw(Source::Probs, stream, probs, params, out) })
}

/// What writes the tokens that filters keep.
type Keep = fn(&Stream, &TensorRef<'_>, &SamplingParams<'_>, TensorMut<'_>) -> Result<(), Error>;

/// Writes what filters keep of logits or probabilities.
///
/// # Safety
///
/// The caller's pointers, tensors and arrays.
unsafe fn keep(
    (source, keep): (Source, Keep),
    stream: *const AttnStream,
    from: *const AttnTensor,
    params: *const AttnSampling,
    out: *const AttnTensor,
) -> Result<(), Failure> {
    // SAFETY: the caller guarantees it.
    unsafe {
        let AttnStream { stream, memory } = handle(stream, "stream")?;
        let from = handle(from, source.name())?.read(memory, source.name())?;
        let (params, out) = (versioned(params)?, handle(out, "tensor out")?.write(memory, "out")?);
        let mut arrays = Arrays::new(memory);
        arrays.add(source.name(), from.reach(), false)?;
        arrays.add("out", out.reach(), true)?;
        let params = params.params(&mut arrays, params.sizes(&from), source)?;
        Ok(keep(stream, &from, &params, out)?)
    }
}

/// Writes the probabilities of logits after token mask, temperature and filters: (rows, vocab) in f32. Seeds are not
/// read, and penalties are refused. Otherwise as `attn_sample`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn attn_softmax(
    stream: *const AttnStream,
    logits: *const AttnTensor,
    params: *const AttnSampling,
    out: *const AttnTensor,
) -> AttnStatus {
    // SAFETY: the caller's pointers, tensors and arrays.
    call(|| unsafe { keep((Source::Logits, sampling::softmax), stream, logits, params, out) })
}

/// Writes probabilities that are divided by the sum of those that the filters keep, and 0 for others: (rows, vocab) in
/// f32. Otherwise as `attn_softmax`, after `attn_sampling_prepare_probs`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn attn_renorm_probs(
    stream: *const AttnStream,
    probs: *const AttnTensor,
    params: *const AttnSampling,
    out: *const AttnTensor,
) -> AttnStatus {
    // SAFETY: the caller's pointers, tensors and arrays.
    call(|| unsafe { keep((Source::Probs, sampling::renorm_probs), stream, probs, params, out) })
}

/// Writes the logits that the filters keep, and -inf for others: (rows, vocab) in f32. Otherwise as `attn_softmax`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn attn_mask_logits(
    stream: *const AttnStream,
    logits: *const AttnTensor,
    params: *const AttnSampling,
    out: *const AttnTensor,
) -> AttnStatus {
    // SAFETY: the caller's pointers, tensors and arrays.
    call(|| unsafe { keep((Source::Logits, sampling::mask_logits), stream, logits, params, out) })
}

/// Compiles and loads the kernels of sampling from logits of a type, an `AttnDtype`, so that the first call can be
/// captured.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn attn_sampling_prepare(engine: *const AttnEngine, logits: u32) -> AttnStatus {
    // SAFETY: the caller's handle.
    call(|| Ok(sampling::prepare(&unsafe { handle(engine, "engine") }?.0, dtype_of_rows(logits)?)?))
}

/// Compiles and loads the kernels of sampling from probabilities of a type, as `attn_sampling_prepare`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn attn_sampling_prepare_probs(engine: *const AttnEngine, probs: u32) -> AttnStatus {
    // SAFETY: the caller's handle.
    call(|| Ok(sampling::prepare_probs(&unsafe { handle(engine, "engine") }?.0, dtype_of_rows(probs)?)?))
}

/// A type of logits and probabilities.
fn dtype_of_rows(number: u32) -> Result<Dtype, Failure> {
    member(number, &[Dtype::F16, Dtype::Bf16, Dtype::F32], "the AttnDtype of rows to sample from")
}
