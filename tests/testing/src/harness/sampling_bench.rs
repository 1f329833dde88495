//! Timing of sampling, for the interleaved benchmark.

use serde::Deserialize;

use attn::ops::DeviceArray;
use attn::sampling::{FilterOrder, Penalties, PerRow, SampleOut, SamplingParams, prepare, sample};
use attn::{DeviceBuffer, Dtype, Engine, Stream, random};

use super::clock::Clock;
use crate::TestError;

/// Rows of normally distributed logits, and what they are filtered by.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SamplingBenchCase {
    /// Rows.
    pub rows: usize,
    /// Tokens.
    pub vocab: usize,
    /// Type of the logits: f32, or bf16, whose values have many ties.
    #[serde(default)]
    pub bf16: bool,
    /// Standard deviation of the logits.
    #[serde(default = "one")]
    pub deviation: f32,
    /// 0: off.
    #[serde(default)]
    pub top_k: i32,
    /// 1: off.
    #[serde(default = "one")]
    pub top_p: f32,
    /// 0: off.
    #[serde(default)]
    pub min_p: f32,
    /// 0: greedy.
    #[serde(default = "one")]
    pub temperature: f32,
    /// Whether top-k and top-p both look at the whole distribution.
    #[serde(default)]
    pub joint: bool,
    /// Whether counts change logits.
    #[serde(default)]
    pub penalties: bool,
    /// Whether log-probabilities are written.
    #[serde(default)]
    pub log_probs: bool,
}

fn one() -> f32 {
    1.0
}

/// A case with its tensors, ready to be timed.
#[derive(Debug)]
pub struct PreparedSampling {
    case: SamplingBenchCase,
    engine: Engine,
    stream: Stream,
    logits: DeviceBuffer,
    ids: DeviceArray<i32>,
    positions: DeviceArray<i64>,
    seeds: DeviceArray<u64>,
    counts: DeviceArray<u32>,
    log_probs: DeviceArray<f32>,
}

impl PreparedSampling {
    /// Uploads the logits and loads the kernels.
    ///
    /// # Errors
    ///
    /// Out of memory, or no kernel.
    pub fn new(case: &SamplingBenchCase, engine: &Engine) -> Result<Self, TestError> {
        let (rows, vocab) = (case.rows, case.vocab);
        // Box and Muller's method
        let normal = |i: u32| {
            let (u, v) = (random::uniform(1, 2, i, 3), random::uniform(4, 5, i, 6));
            (-2.0 * (1.0 - u).ln()).sqrt() * (std::f32::consts::TAU * v).cos() * case.deviation
        };
        let values: Vec<f32> = (0..(rows * vocab) as u32).map(normal).collect();
        let logits = if case.bf16 {
            engine.upload(&values.iter().map(|&x| half::bf16::from_f32(x)).collect::<Vec<_>>())?
        } else {
            engine.upload(&values)?
        };
        prepare(engine, if case.bf16 { Dtype::Bf16 } else { Dtype::F32 })?;
        Ok(PreparedSampling {
            stream: engine.stream()?,
            logits,
            ids: DeviceArray::zeroed(engine, rows)?,
            positions: DeviceArray::zeroed(engine, rows)?,
            seeds: DeviceArray::upload(engine, &(0..rows as u64).collect::<Vec<_>>())?,
            counts: DeviceArray::zeroed(engine, if case.penalties { rows * vocab } else { 0 })?,
            log_probs: DeviceArray::zeroed(engine, rows)?,
            engine: engine.clone(),
            case: case.clone(),
        })
    }

    /// Median milliseconds of `reps` runs after a warm-up run, with a cold L2.
    ///
    /// # Errors
    ///
    /// A run failed.
    pub fn time(&mut self, reps: usize) -> Result<f64, TestError> {
        let PreparedSampling { case, engine, stream, logits, ids, positions, seeds, counts, log_probs } = self;
        let params = SamplingParams {
            temperature: case.temperature.into(),
            top_k: case.top_k.into(),
            top_p: case.top_p.into(),
            min_p: case.min_p.into(),
            order: if case.joint { FilterOrder::Joint } else { FilterOrder::TopKFirst },
            penalties: case.penalties.then(|| Penalties { repetition: 1.1.into(), ..Penalties::default() }),
            seeds: PerRow::Rows(seeds.array()),
            ..SamplingParams::default()
        };
        let logits = logits.tensor(&[case.rows, case.vocab])?;
        Clock::new(engine)?.median_ms(stream, reps, 1, || {
            let mut out = SampleOut::new(ids.array_mut(), positions.array_mut());
            out.counts = case.penalties.then(|| counts.array_mut());
            out.log_probs = case.log_probs.then(|| log_probs.array_mut());
            Ok(sample(stream, &logits, &params, &mut out)?)
        })
    }
}
