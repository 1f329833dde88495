//! Sampling on the CPU.

use super::check::{check, check_keep};
use super::fixed_point::penalised;
use super::params::{LogProbs, PerRow, Source};
use super::row::{Filters, Row};
use super::{SampleOut, SamplingParams, TopLogProbs};
use crate::ops::{OpError, elements};
use crate::tensor::{TensorMut, TensorRef};

/// Draws a token of each row of logits or probabilities, on the CPU.
///
/// # Errors
///
/// Device memory; the errors of [`check()`].
pub fn sample(
    source: Source,
    tensor: &TensorRef<'_>,
    params: &SamplingParams<'_>,
    out: &mut SampleOut<'_>,
) -> Result<(), OpError> {
    let sizes = check(source, tensor, params, out)?;
    let rows = Rows::new(source.name(), tensor, params.indices.as_ref())?;
    let host = HostParams::new(params)?;
    let positions = out.positions.on_host("positions")?;
    let mut values = vec![0.0; sizes.vocab];
    for number in 0..sizes.rows {
        rows.read(number, &mut values);
        if let Some(counts) = &mut out.counts {
            let counts = counts.on_host("counts")?;
            host.penalise(number, &counts[number * sizes.vocab..][..sizes.vocab], &mut values);
        }
        host.mask(number, &mut values);
        let row = host.row(source, number, &mut values);
        let kept = row.keep(&host.filters(number));
        let drawn = kept.draw(host.seeds.of(number, 0), positions[number]);
        positions[number] = positions[number].wrapping_add(1);
        out.ids.on_host("ids")?[number] = drawn.map_or(-1, |id| id as i32);
        if let (Some(counts), Some(id)) = (&mut out.counts, drawn) {
            let count = &mut counts.on_host("counts")?[number * sizes.vocab + id];
            *count = count.wrapping_add(1);
        }
        if let Some(log_probs) = &mut out.log_probs {
            let sum = if params.log_probs == LogProbs::Kept { kept.sum } else { row.sum() };
            let log_prob = drawn.map_or(f32::NEG_INFINITY, |id| row.log_prob(id, sum));
            log_probs.on_host("log_probs")?[number] = log_prob;
        }
        if let Some(probs) = &mut out.probs {
            let of_row = kept.probs();
            write_row("probs", probs, number, |id| of_row[id])?;
        }
        if let Some(top) = &mut out.top {
            write_top(top, number, &row)?;
        }
    }
    Ok(())
}

/// What is written of the tokens that filters keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FilterOut {
    /// Their probabilities, which sum to 1; 0 for others.
    Probs,
    /// Their logits; -inf for others.
    Logits,
}

/// Writes what filters keep of each row, on the CPU: (rows, vocab) in f32.
///
/// # Errors
///
/// Device memory; the errors of [`check_keep`].
pub fn keep(
    source: Source,
    tensor: &TensorRef<'_>,
    params: &SamplingParams<'_>,
    what: FilterOut,
    out: &mut TensorMut<'_>,
) -> Result<(), OpError> {
    let sizes = check_keep(source, tensor, params, out)?;
    let rows = Rows::new(source.name(), tensor, params.indices.as_ref())?;
    let host = HostParams::new(params)?;
    let mut values = vec![0.0; sizes.vocab];
    for number in 0..sizes.rows {
        rows.read(number, &mut values);
        host.mask(number, &mut values);
        let row = host.row(source, number, &mut values);
        let kept = row.keep(&host.filters(number));
        let of_row = match what {
            FilterOut::Probs => kept.probs(),
            FilterOut::Logits => kept.logits(),
        };
        write_row("out", out, number, |id| of_row[id])?;
    }
    Ok(())
}

/// Writes a row of f32.
pub(super) fn write_row(
    name: &'static str,
    tensor: &mut TensorMut<'_>,
    row: usize,
    value: impl Fn(usize) -> f32,
) -> Result<(), OpError> {
    let (at, vocab) = (row * tensor.strides()[0] as usize, tensor.shape()[1]);
    let values = tensor.as_host_mut::<f32>().ok_or_else(|| elements::on_device(name))?;
    let target = values.get_mut(at..at + vocab).unwrap_or_default(); // a row of no tokens has no memory
    target.iter_mut().enumerate().for_each(|(id, to)| *to = value(id));
    Ok(())
}

fn write_top(top: &mut TopLogProbs<'_>, number: usize, row: &Row<'_>) -> Result<(), OpError> {
    let tokens = row.likeliest(top.count);
    let at = number * top.count..(number + 1) * top.count;
    let ids = &mut top.ids.on_host("top.ids")?[at.clone()];
    ids.iter_mut().enumerate().for_each(|(i, id)| *id = tokens.get(i).map_or(-1, |&token| token as i32));
    let log_probs = &mut top.log_probs.on_host("top.log_probs")?[at];
    for (i, log_prob) in log_probs.iter_mut().enumerate() {
        *log_prob = tokens.get(i).map_or(f32::NEG_INFINITY, |&token| row.log_prob(token, row.sum()));
    }
    Ok(())
}

/// Rows of a tensor in host memory, by the rows of the results.
pub(super) struct Rows<'a> {
    tensor: TensorRef<'a>,
    bytes: &'a [u8],
    indices: Option<&'a [i32]>,
}

impl<'a> Rows<'a> {
    pub(super) fn new(
        name: &'static str,
        tensor: &TensorRef<'a>,
        indices: Option<&crate::ops::Array<'a, i32>>,
    ) -> Result<Self, OpError> {
        let bytes = tensor.host_bytes().ok_or_else(|| elements::on_device(name))?;
        let indices = indices.map(|indices| indices.on_host("indices")).transpose()?;
        Ok(Rows { tensor: *tensor, bytes, indices })
    }

    pub(super) fn read(&self, number: usize, values: &mut [f32]) {
        if values.is_empty() {
            return; // a row of no tokens has no memory
        }
        let source = self.indices.map_or(number, |indices| indices[number] as usize);
        let dtype = self.tensor.dtype();
        let at = elements::offset(&self.tensor.strides()[..1], &[source], dtype.size());
        elements::read(dtype, &self.bytes[at..], values);
    }
}

/// Parameters in host memory.
struct HostParams<'a> {
    temperature: PerRow<'a, f32>,
    top_k: PerRow<'a, i32>,
    top_p: PerRow<'a, f32>,
    min_p: PerRow<'a, f32>,
    seeds: PerRow<'a, u64>,
    penalties: Option<[PerRow<'a, f32>; 3]>,
    token_mask: Option<&'a [u32]>,
    order: super::FilterOrder,
}

impl<'a> HostParams<'a> {
    fn new(params: &SamplingParams<'a>) -> Result<Self, OpError> {
        let penalties = params.penalties.map(|of| {
            Ok::<_, OpError>([
                of.repetition.on_host("repetition")?,
                of.presence.on_host("presence")?,
                of.frequency.on_host("frequency")?,
            ])
        });
        Ok(HostParams {
            temperature: params.temperature.on_host("temperature")?,
            top_k: params.top_k.on_host("top_k")?,
            top_p: params.top_p.on_host("top_p")?,
            min_p: params.min_p.on_host("min_p")?,
            seeds: params.seeds.on_host("seeds")?,
            penalties: penalties.transpose()?,
            token_mask: params.token_mask.as_ref().map(|mask| mask.on_host("token_mask")).transpose()?,
            order: params.order,
        })
    }

    fn row<'v>(&self, source: Source, row: usize, values: &'v mut [f32]) -> Row<'v> {
        match source {
            Source::Logits => Row::of_logits(values, self.temperature.of(row, 1.0)),
            Source::Probs => Row::of_probs(values),
        }
    }

    fn filters(&self, row: usize) -> Filters {
        Filters {
            top_k: self.top_k.of(row, 0),
            top_p: self.top_p.of(row, 1.0),
            min_p: self.min_p.of(row, 0.0),
            order: self.order,
        }
    }

    fn penalise(&self, row: usize, counts: &[u32], values: &mut [f32]) {
        let Some([repetition, presence, frequency]) = &self.penalties else { return };
        let (repetition, presence) = (repetition.of(row, 1.0), presence.of(row, 0.0));
        let frequency = frequency.of(row, 0.0);
        for (x, &count) in values.iter_mut().zip(counts) {
            *x = penalised(*x, count, repetition, presence, frequency);
        }
    }

    fn mask(&self, row: usize, values: &mut [f32]) {
        let Some(mask) = self.token_mask else { return };
        let words = values.len().div_ceil(32);
        for (id, x) in values.iter_mut().enumerate() {
            if mask[row * words + id / 32] >> (id % 32) & 1 == 0 {
                *x = f32::NEG_INFINITY;
            }
        }
    }
}

#[cfg(test)]
mod tests;
