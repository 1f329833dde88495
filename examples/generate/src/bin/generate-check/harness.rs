//! A model on the device of the options, and steps of it.

use attn::{Dtype, Engine};
use attn_cache::{Pages, Sequence, Step, StepCapacity};
use generate::{
    Error,
    model::{
        SampleRow, StepInput,
        draw::Draw,
        forward::{Forward, ForwardOptions},
        gguf::Gguf,
        math::{CpuMath, CudaMath, CudaMathOptions, Math},
        runner::ModelRunner,
        weights::LlamaWeights,
    },
    sampling::{Sampled, SamplingParams},
};

use super::Options;

/// New tokens of a step, at most.
pub(crate) const STEP_TOKENS: usize = 512;
/// Sequences of a step, and logits of a step, at most.
pub(crate) const STEP_SEQUENCES: usize = 64;
const PAGES: usize = 4096;
const PAGE_SIZE: usize = 16;
/// Tokens of a sequence, at most.
const CONTEXT: usize = 2048;

/// A model with its pages.
#[derive(Debug)]
pub(crate) struct Harness<D> {
    pub(crate) engine: Engine,
    pub(crate) runner: ModelRunner<D>,
    pub(crate) pages: Pages,
    pub(crate) step: Step,
    pub(crate) vocab: usize,
}

/// How the model computes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mode {
    invariant: bool,
    few_rows: usize,
    residual: Dtype,
}

impl Mode {
    pub(crate) fn of(options: &Options, invariant: bool) -> Self {
        Mode {
            invariant,
            few_rows: options.few_rows,
            residual: if options.half_residual { Dtype::F16 } else { Dtype::F32 },
        }
    }
}

impl<D: Draw> Harness<D> {
    pub(crate) fn new(
        options: &Options,
        mode: Mode,
        draw: impl FnOnce(&Engine, usize) -> Result<D, Error>,
    ) -> Result<Self, Error> {
        let Mode { invariant, few_rows, residual } = mode;
        let engine = if options.cpu { Engine::cpu() } else { Engine::cuda(0)? };
        let math: Box<dyn Math> = match options.cpu {
            true => Box::new(CpuMath::new()?),
            false => Box::new(CudaMath::new(
                &engine,
                CudaMathOptions { fixed_rows: invariant, few_rows, residual, ..CudaMathOptions::default() },
            )?),
        };
        let file = Gguf::open(&options.model)?;
        let config = file.config()?;
        let weights = LlamaWeights::load(&config, &file, &*math)?;
        let sizes = ForwardOptions {
            step_tokens: STEP_TOKENS,
            step_sequences: STEP_SEQUENCES,
            step_rows: STEP_SEQUENCES,
            pages: PAGES,
            page_size: PAGE_SIZE,
            cache_dtype: None,
            fixed_split_size: invariant.then_some(1024),
        };
        let forward = Forward::new(&config, weights, &sizes, &*math)?;
        let draw = draw(&engine, config.vocab)?;
        let pages = Pages::new(PAGES, PAGE_SIZE)?;
        let capacity = StepCapacity {
            sequences: STEP_SEQUENCES,
            tokens: STEP_TOKENS,
            pages: PAGES,
            pages_per_sequence: CONTEXT / PAGE_SIZE,
            levels: 1,
        };
        let step = Step::new(&pages, capacity)?;
        let runner = ModelRunner::new(math, forward, draw, &sizes, CONTEXT)?;
        Ok(Harness { engine, runner, pages, step, vocab: config.vocab })
    }

    /// Appends new tokens to sequences, and draws a token after each of `rows`.
    pub(crate) fn run(
        &mut self,
        sequences: &mut [Sequence],
        new: &[&[u32]],
        rows: &[usize],
    ) -> Result<Vec<Sampled>, Error> {
        for (sequence, new) in sequences.iter_mut().zip(new) {
            sequence.append(new.len())?;
        }
        self.step.build(&*sequences)?;
        let params = SamplingParams::default();
        let row = |&row: &usize| SampleRow { row, position: 0, params: &params, prompt: &[], generated: &[] };
        let rows: Vec<_> = rows.iter().map(row).collect();
        let sampled =
            self.runner.run(&StepInput { step: &self.step, tokens: &new.concat(), rows: &rows, endless: &[] })?;
        self.step.commit(&mut *sequences);
        Ok(sampled)
    }

    /// As [`Harness::run`], and returns the logits of all new tokens.
    pub(crate) fn logits(&mut self, sequences: &mut [Sequence], new: &[&[u32]]) -> Result<Vec<Vec<f32>>, Error> {
        let count = new.iter().map(|new| new.len()).sum();
        self.run(sequences, new, &(0..count).collect::<Vec<_>>())?;
        let logits = self.engine.download::<f32>(&self.runner.forward().logits)?;
        Ok(logits.chunks(self.vocab).take(count).map(<[f32]>::to_vec).collect())
    }

    /// The logits after each token of a text, which is fed in chunks of these sizes, by turns.
    pub(crate) fn text(&mut self, ids: &[u32], chunks: &[usize]) -> Result<Vec<Vec<f32>>, Error> {
        let (mut sequence, mut logits, mut fed) = ([Sequence::new(&self.pages)], Vec::new(), 0);
        for &chunk in chunks.iter().cycle() {
            let end = (fed + chunk).min(ids.len());
            logits.extend(self.logits(&mut sequence, &[&ids[fed..end]])?);
            fed = end;
            if fed == ids.len() {
                break;
            }
        }
        Ok(logits)
    }
}

/// The token of the largest logit, and its lead over the second.
pub(crate) fn argmax(logits: &[f32]) -> (u32, f32) {
    let (mut best, mut first, mut second) = (0, f32::NEG_INFINITY, f32::NEG_INFINITY);
    for (token, &logit) in logits.iter().enumerate() {
        if logit > first {
            (best, second, first) = (token, first, logit);
        } else if logit > second {
            second = logit;
        }
    }
    (best as u32, first - second)
}
