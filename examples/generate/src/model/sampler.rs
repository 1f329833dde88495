//! Draws tokens by `attn::sampling`, on any device.

use attn::{
    DeviceBuffer, Engine, Stream,
    ops::{Array, ArrayMut, Number, Numbers},
    sampling::{Penalties, PerRow, SampleOut, SamplingParams, TopLogProbs, sample},
};

use super::{SampleRow, draw::Draw, mirror::Mirror};
use crate::{Error, sampling::Sampled};

/// Most likely tokens of a row, at most.
pub const MAX_TOP_LOGPROBS: usize = attn::sampling::MAX_TOP;

/// Draws tokens. What nearly all requests need (temperature, filters, seeds) is one launch that a graph can capture.
/// Penalties, token masks and most likely tokens are drawn by a second launch, in the steps that have such a row.
#[derive(Debug)]
pub struct Sampler {
    vocab: usize,
    temperature: Mirror<f32>,
    top_k: Mirror<i32>,
    top_p: Mirror<f32>,
    min_p: Mirror<f32>,
    seeds: Mirror<u64>,
    positions: Mirror<i64>,
    ids: Numbers<i32>,
    log_probs: Numbers<f32>,
    rare: Rare,
}

/// Memory of what few requests need.
#[derive(Debug)]
struct Rare {
    repetition: Mirror<f32>,
    presence: Mirror<f32>,
    frequency: Mirror<f32>,
    /// (rows, vocab)
    counts: Numbers<u32>,
    /// (rows, words)
    allowed: Numbers<u32>,
    top_ids: Numbers<i32>,
    top_log_probs: Numbers<f32>,
}

/// The bit of a token's count that says that the prompt has it.
const IN_PROMPT: u32 = 1 << 31;

impl Sampler {
    /// A sampler of up to `rows` rows of `vocab` logits.
    ///
    /// # Errors
    ///
    /// Out of memory.
    pub fn new(engine: &Engine, rows: usize, vocab: usize) -> Result<Self, Error> {
        let float = |value| Mirror::new(engine, rows, value);
        Ok(Sampler {
            vocab,
            temperature: float(0.0)?,
            top_k: Mirror::new(engine, rows, 0)?,
            top_p: float(1.0)?,
            min_p: float(0.0)?,
            seeds: Mirror::new(engine, rows, 0)?,
            positions: Mirror::new(engine, rows, 0)?,
            ids: Numbers::zeroed(engine, rows)?,
            log_probs: Numbers::zeroed(engine, rows)?,
            rare: Rare {
                repetition: float(1.0)?,
                presence: float(0.0)?,
                frequency: float(0.0)?,
                counts: Numbers::zeroed(engine, rows * vocab)?,
                allowed: Numbers::upload(engine, &vec![u32::MAX; rows * vocab.div_ceil(32)])?,
                top_ids: Numbers::zeroed(engine, rows * MAX_TOP_LOGPROBS)?,
                top_log_probs: Numbers::zeroed(engine, rows * MAX_TOP_LOGPROBS)?,
            },
        })
    }

    /// Draws again, with all that the rows ask for. Returns how many of the most likely tokens each row has then.
    fn draw_rare(&mut self, stream: &Stream, logits: &DeviceBuffer, rows: &[SampleRow<'_>]) -> Result<usize, Error> {
        let Sampler { vocab, temperature, top_k, top_p, min_p, seeds, positions, ids, log_probs, rare } = self;
        let (vocab, count) = (*vocab, rows.len());
        let params = || rows.iter().map(|row| row.params);
        positions.write(stream, rows.iter().map(|row| row.position as i64), count, 0)?;
        rare.repetition.write(stream, params().map(|p| p.repetition_penalty), count, 1.0)?;
        rare.presence.write(stream, params().map(|p| p.presence_penalty), count, 0.0)?;
        rare.frequency.write(stream, params().map(|p| p.frequency_penalty), count, 0.0)?;
        let words = vocab.div_ceil(32);
        for (row, sample) in rows.iter().enumerate() {
            if penalises(sample) {
                rare.counts.write(stream, row * vocab, &counts(sample, vocab))?;
            }
            let all = vec![u32::MAX; words];
            let allowed = sample.params.allowed.as_deref().unwrap_or(&all);
            rare.allowed.write(stream, row * words, &allowed[..words.min(allowed.len())])?;
        }
        let top = params().map(|p| p.top_logprobs).max().unwrap_or(0).min(MAX_TOP_LOGPROBS);
        let any_mask = params().any(|p| p.allowed.is_some());
        let any_penalty = rows.iter().any(penalises);
        let sampling = SamplingParams {
            temperature: per_row(temperature, count)?,
            top_k: per_row(top_k, count)?,
            top_p: per_row(top_p, count)?,
            min_p: per_row(min_p, count)?,
            seeds: per_row(seeds, count)?,
            penalties: if any_penalty {
                Some(Penalties {
                    repetition: per_row(&rare.repetition, count)?,
                    presence: per_row(&rare.presence, count)?,
                    frequency: per_row(&rare.frequency, count)?,
                })
            } else {
                None
            },
            token_mask: if any_mask { Some(first(&rare.allowed, count * words)?) } else { None },
            ..SamplingParams::default()
        };
        let mut out = SampleOut::new(first_mut(ids, count)?, positions.first_mut(count)?);
        out.log_probs = Some(first_mut(log_probs, count)?);
        out.counts = if any_penalty { Some(first_mut(&mut rare.counts, count * vocab)?) } else { None };
        if top > 0 {
            let ids = first_mut(&mut rare.top_ids, count * top)?;
            out.top =
                Some(TopLogProbs { ids, log_probs: first_mut(&mut rare.top_log_probs, count * top)?, count: top });
        }
        sample(stream, &logits.tensor(&[count, vocab])?, &sampling, &mut out)?;
        positions.changed(count, |position| position + 1);
        Ok(top)
    }
}

impl Draw for Sampler {
    fn upload(&mut self, stream: &Stream, rows: &[SampleRow<'_>], padded: usize) -> Result<(), Error> {
        let params = || rows.iter().map(|row| row.params);
        self.temperature.write(stream, params().map(|p| p.temperature), padded, 0.0)?;
        self.top_k.write(stream, params().map(|p| i32::try_from(p.top_k).unwrap_or(0)), padded, 0)?;
        self.top_p.write(stream, params().map(|p| p.top_p), padded, 1.0)?;
        self.min_p.write(stream, params().map(|p| p.min_p), padded, 0.0)?;
        self.seeds.write(stream, params().map(|p| p.seed), padded, 0)?;
        self.positions.write(stream, rows.iter().map(|row| row.position as i64), padded, 0)
    }

    fn launch(&mut self, stream: &Stream, logits: &DeviceBuffer, rows: usize) -> Result<(), Error> {
        if rows == 0 {
            return Ok(());
        }
        let sampling = SamplingParams {
            temperature: per_row(&self.temperature, rows)?,
            top_k: per_row(&self.top_k, rows)?,
            top_p: per_row(&self.top_p, rows)?,
            min_p: per_row(&self.min_p, rows)?,
            seeds: per_row(&self.seeds, rows)?,
            ..SamplingParams::default()
        };
        let mut out = SampleOut::new(first_mut(&mut self.ids, rows)?, self.positions.first_mut(rows)?);
        out.log_probs = Some(first_mut(&mut self.log_probs, rows)?);
        Ok(sample(stream, &logits.tensor(&[rows, self.vocab])?, &sampling, &mut out)?)
    }

    fn launched(&mut self, rows: usize) {
        self.positions.changed(rows, |position| position + 1);
    }

    fn read(&mut self, stream: &Stream, logits: &DeviceBuffer, rows: &[SampleRow<'_>]) -> Result<Vec<Sampled>, Error> {
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let top = if rows.iter().any(is_rare) { self.draw_rare(stream, logits, rows)? } else { 0 };
        let (ids, log_probs) = (self.ids.to_vec()?, self.log_probs.to_vec()?);
        let (top_ids, top_log_probs) = match top {
            0 => (Vec::new(), Vec::new()),
            _ => (self.rare.top_ids.to_vec()?, self.rare.top_log_probs.to_vec()?),
        };
        let of_row = |(row, sample): (usize, &SampleRow<'_>)| {
            let of_sample = row * top..row * top + top.min(sample.params.top_logprobs);
            let tokens = of_sample.map(|i| (top_ids[i], top_log_probs[i])).filter(|&(id, _)| id >= 0);
            // -1 becomes a token outside of the vocabulary
            let (token, logprob) = (ids[row] as u32, log_probs[row]);
            Sampled { token, logprob, top: tokens.map(|(id, lp)| (id as u32, lp)).collect() }
        };
        Ok(rows.iter().enumerate().map(of_row).collect())
    }
}

/// Whether a row needs more than the launch that a graph captures.
fn is_rare(row: &SampleRow<'_>) -> bool {
    penalises(row) || row.params.allowed.is_some() || row.params.top_logprobs > 0
}

fn penalises(row: &SampleRow<'_>) -> bool {
    let params = row.params;
    params.repetition_penalty != 1.0 || params.presence_penalty != 0.0 || params.frequency_penalty != 0.0
}

/// How often each token was generated, and whether the prompt has it.
fn counts(row: &SampleRow<'_>, vocab: usize) -> Vec<u32> {
    let mut counts = vec![0; vocab];
    let mut each = |tokens: &[u32], change: &dyn Fn(&mut u32)| {
        tokens.iter().for_each(|&token| counts.get_mut(token as usize).into_iter().for_each(change));
    };
    each(row.prompt, &|count| *count |= IN_PROMPT);
    each(row.generated, &|count| *count += 1);
    counts
}

fn per_row<T: Number + PartialEq>(of: &Mirror<T>, rows: usize) -> Result<PerRow<'_, T>, Error> {
    Ok(PerRow::Rows(of.first(rows)?))
}

fn first<T: Number>(of: &Numbers<T>, len: usize) -> Result<Array<'_, T>, Error> {
    Ok(of.array().first(len).map_err(attn::Error::from)?)
}

fn first_mut<T: Number>(of: &mut Numbers<T>, len: usize) -> Result<ArrayMut<'_, T>, Error> {
    Ok(of.array_mut().first(len).map_err(attn::Error::from)?)
}
