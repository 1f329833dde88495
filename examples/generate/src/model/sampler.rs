//! Draws tokens by `attn::sampling`, on any device.

mod history;

use attn::{
    DeviceBuffer, Engine, Stream,
    ops::{Array, ArrayMut, DeviceArray, HostArray, Number},
    sampling::{Penalties, PerRow, SampleOut, SamplingParams, TopLogProbs, sample},
};

use super::{
    SampleRow,
    step_memory::{Part, StepMemory},
};
use crate::{Error, sampling::Sampled};
use history::{History, counts};

/// Most likely tokens of a row, at most.
pub const MAX_TOP_LOGPROBS: usize = attn::sampling::MAX_TOP;

/// The form of launches that read penalties and token masks.
const CONSTRAINED: usize = 1;
/// The form of launches that write the most likely tokens. Both may be set.
const TOP: usize = 2;

/// Draws tokens on a device: a step calls `put`, `launch` (or it replays one of the same form) and `read`, in this
/// order.
///
/// It draws by one launch, which a graph can capture. It has four forms: what few requests need (penalties and
/// token masks; most likely tokens) is in the launches of steps that have such a row, and costs others nothing.
///
/// Tokens and their log-probabilities are written to memory of the host. Masks and counts of tokens stay on the device:
/// counts go on there from step to step, and are uploaded when a row has another text.
#[derive(Debug)]
pub struct Sampler {
    vocab: usize,
    form: usize,
    params: Params,
    ids: HostArray<i32>,
    log_probs: HostArray<f32>,
    top_ids: HostArray<i32>,
    top_log_probs: HostArray<f32>,
    /// (rows, vocab)
    counts: DeviceArray<u32>,
    /// (rows, words)
    allowed: DeviceArray<u32>,
    history: History,
}

/// The parameters of a step's rows.
#[derive(Clone, Copy, Debug, Default)]
struct Params {
    seeds: Part<u64>,
    temperature: Part<f32>,
    top_k: Part<i32>,
    top_p: Part<f32>,
    min_p: Part<f32>,
    repetition: Part<f32>,
    presence: Part<f32>,
    frequency: Part<f32>,
    /// The last, because the launch advances them.
    positions: Part<i64>,
}

impl Sampler {
    /// A sampler of up to `rows` rows of `vocab` logits.
    pub fn new(engine: &Engine, rows: usize, vocab: usize) -> Result<Self, Error> {
        Ok(Sampler {
            vocab,
            form: 0,
            params: Params::default(),
            ids: HostArray::new(engine, rows)?,
            log_probs: HostArray::new(engine, rows)?,
            top_ids: HostArray::new(engine, rows * MAX_TOP_LOGPROBS)?,
            top_log_probs: HostArray::new(engine, rows * MAX_TOP_LOGPROBS)?,
            counts: DeviceArray::zeroed(engine, rows * vocab)?,
            allowed: DeviceArray::upload(engine, &vec![u32::MAX; rows * vocab.div_ceil(32)])?,
            history: History::new(rows),
        })
    }

    /// Brings counts and masks of rows to the device that are not there.
    fn put_constraints(&mut self, stream: &Stream, rows: &[SampleRow<'_>], padded: usize) -> Result<(), Error> {
        let (vocab, words) = (self.vocab, self.vocab.div_ceil(32));
        self.history.begin();
        for row in 0..padded {
            let sample = rows.get(row);
            if self.history.count(row, sample.filter(|sample| penalises(sample)))
                && let Some(sample) = sample
            {
                self.counts.write(stream, row * vocab, &counts(sample, vocab))?;
            }
            let allowed = sample.and_then(|sample| sample.params.allowed.as_ref());
            if self.history.allow(row, allowed) {
                let all = || vec![u32::MAX; words];
                let allowed = allowed.map_or_else(all, |allowed| allowed[..words.min(allowed.len())].to_vec());
                self.allowed.write(stream, row * words, &allowed)?;
            }
        }
        Ok(())
    }

    /// Words that [`Sampler::put`] takes for up to `rows` rows.
    pub(super) fn words(rows: usize) -> usize {
        2 * StepMemory::words::<u64>(rows) + 7 * StepMemory::words::<f32>(rows)
    }

    /// Puts how the next launch draws, and uploads what is too large for a [`StepMemory`]. The rows from `rows.len()`
    /// to `padded` are padding. Returns the form of the launch: launches of as many rows and of one form do the same.
    pub(super) fn put(
        &mut self,
        memory: &mut StepMemory,
        stream: &Stream,
        rows: &[SampleRow<'_>],
        padded: usize,
    ) -> Result<usize, Error> {
        let params = || rows.iter().map(|row| row.params);
        self.params = Params {
            seeds: memory.put(params().map(|p| p.seed), padded, 0)?,
            temperature: memory.put(params().map(|p| p.temperature), padded, 0.0)?,
            top_k: memory.put(params().map(|p| i32::try_from(p.top_k).unwrap_or(0)), padded, 0)?,
            top_p: memory.put(params().map(|p| p.top_p), padded, 1.0)?,
            min_p: memory.put(params().map(|p| p.min_p), padded, 0.0)?,
            repetition: memory.put(params().map(|p| p.repetition_penalty), padded, 1.0)?,
            presence: memory.put(params().map(|p| p.presence_penalty), padded, 0.0)?,
            frequency: memory.put(params().map(|p| p.frequency_penalty), padded, 0.0)?,
            positions: memory.put(rows.iter().map(|row| row.position as i64), padded, 0)?,
        };
        let constrained = rows.iter().any(|row| penalises(row) || row.params.allowed.is_some());
        let top = params().any(|p| p.top_logprobs > 0);
        self.form = if constrained { CONSTRAINED } else { 0 } + if top { TOP } else { 0 };
        if constrained {
            self.put_constraints(stream, rows, padded)?;
        }
        Ok(self.form)
    }

    /// Launches the draws from the first `rows` rows of the logits, in the form of the last [`Sampler::put`]. It
    /// neither allocates nor waits nor decides by values, so a CUDA graph can capture it.
    pub(super) fn launch(
        &mut self,
        memory: &mut StepMemory,
        stream: &Stream,
        logits: &DeviceBuffer,
        rows: usize,
    ) -> Result<(), Error> {
        if rows == 0 {
            return Ok(());
        }
        let Sampler { vocab, form, params, .. } = *self;
        let words = rows * vocab.div_ceil(32);
        let (view, positions) = memory.split_last(params.positions);
        let is_constrained = form & CONSTRAINED != 0;
        let penalties = Penalties {
            repetition: PerRow::Rows(view.array(params.repetition)),
            presence: PerRow::Rows(view.array(params.presence)),
            frequency: PerRow::Rows(view.array(params.frequency)),
        };
        let sampling = SamplingParams {
            temperature: PerRow::Rows(view.array(params.temperature)),
            top_k: PerRow::Rows(view.array(params.top_k)),
            top_p: PerRow::Rows(view.array(params.top_p)),
            min_p: PerRow::Rows(view.array(params.min_p)),
            seeds: PerRow::Rows(view.array(params.seeds)),
            penalties: is_constrained.then_some(penalties),
            token_mask: if is_constrained { Some(first(&self.allowed, words)?) } else { None },
            ..SamplingParams::default()
        };
        let mut out = SampleOut::new(first_of(self.ids.array_mut(), rows)?, positions);
        out.log_probs = Some(first_of(self.log_probs.array_mut(), rows)?);
        if is_constrained {
            out.counts = Some(first_of(self.counts.array_mut(), rows * vocab)?);
        }
        if form & TOP != 0 {
            out.top = Some(TopLogProbs {
                ids: first_of(self.top_ids.array_mut(), rows * MAX_TOP_LOGPROBS)?,
                log_probs: first_of(self.top_log_probs.array_mut(), rows * MAX_TOP_LOGPROBS)?,
                count: MAX_TOP_LOGPROBS,
            });
        }
        Ok(sample(stream, &logits.tensor(&[rows, vocab])?, &sampling, &mut out)?)
    }

    /// Waits for the stream, and returns the tokens of `rows`, those of the last [`Sampler::put`].
    pub(super) fn read(&mut self, stream: &Stream, rows: &[SampleRow<'_>]) -> Result<Vec<Sampled>, Error> {
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let (ids, log_probs) = (self.ids.read(stream, rows.len())?, self.log_probs.read(stream, rows.len())?);
        let top = if self.form & TOP == 0 { 0 } else { rows.len() * MAX_TOP_LOGPROBS };
        let (top_ids, top_log_probs) = match top {
            0 => (Vec::new(), Vec::new()),
            _ => (self.top_ids.read(stream, top)?, self.top_log_probs.read(stream, top)?),
        };
        if self.form & CONSTRAINED != 0 {
            self.history.drawn(&ids);
        }
        let of_row = |(row, sample): (usize, &SampleRow<'_>)| {
            let own = row * MAX_TOP_LOGPROBS..;
            let tokens = top_ids.iter().zip(&top_log_probs).skip(own.start);
            let tokens = tokens.take(sample.params.top_logprobs.min(MAX_TOP_LOGPROBS)).filter(|&(&id, _)| id >= 0);
            // -1 becomes a token outside of the vocabulary
            let (token, logprob) = (ids[row] as u32, log_probs[row]);
            Sampled { token, logprob, top: tokens.map(|(&id, &lp)| (id as u32, lp)).collect() }
        };
        Ok(rows.iter().enumerate().map(of_row).collect())
    }
}

fn penalises(row: &SampleRow<'_>) -> bool {
    let params = row.params;
    params.repetition_penalty != 1.0 || params.presence_penalty != 0.0 || params.frequency_penalty != 0.0
}

fn first<T: Number>(of: &DeviceArray<T>, len: usize) -> Result<Array<'_, T>, Error> {
    Ok(of.array().first(len).map_err(attn::Error::from)?)
}

fn first_of<T: Number>(of: ArrayMut<'_, T>, len: usize) -> Result<ArrayMut<'_, T>, Error> {
    Ok(of.first(len).map_err(attn::Error::from)?)
}
