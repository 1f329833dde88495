//! What the tests of the model share: the model file, the truth, and steps of sequences.

#![allow(dead_code)] // each test uses a part

use attn_cache::{Sequence, Step};
use generate::{
    Error,
    model::{
        Model, SampleRow, StepInput,
        llama::{Device, Llama, LoadOptions, load},
    },
    sampling::{Sampled, SamplingParams},
    tokenizer::Tokenizer,
};
use serde::Deserialize;

/// What a plain forward pass in numpy computed from the same file (`data/make_smollm2_truth.py`).
#[derive(Debug, Deserialize)]
pub(crate) struct Truth {
    pub(crate) texts: Vec<Text>,
    pub(crate) prompts: Vec<Prompt>,
}

/// A text.
#[derive(Debug, Deserialize)]
pub(crate) struct Text {
    pub(crate) text: String,
    pub(crate) ids: Vec<u32>,
    /// Over all tokens but the first.
    pub(crate) perplexity: f64,
    /// The likeliest tokens after the last one, with their logits.
    pub(crate) top5: Vec<(u32, f32)>,
}

/// A prompt and the tokens that greedy decoding adds.
#[derive(Debug, Deserialize)]
pub(crate) struct Prompt {
    pub(crate) prompt: String,
    pub(crate) ids: Vec<u32>,
    /// Token, logit, and its margin over the second.
    pub(crate) greedy: Vec<(u32, f32, f32)>,
    pub(crate) text: String,
}

pub(crate) fn truth() -> Truth {
    serde_json::from_str(include_str!("data/smollm2_truth.json")).expect("a truth")
}

/// A model on the CPU, its tokenizer, and the sequences that it runs.
pub(crate) struct Run {
    pub(crate) model: Llama,
    pub(crate) tokenizer: Tokenizer,
    pub(crate) step: Step,
}

/// Rows that every test may ask for: a row of a text is a row of logits.
pub(crate) const ROWS: usize = 64;

impl Run {
    pub(crate) fn new() -> Self {
        let options = LoadOptions {
            device: Device::Cpu,
            step_tokens: 512,
            step_sequences: 16,
            step_rows: ROWS,
            cache_tokens: 4096,
            ..LoadOptions::default()
        };
        let (model, tokenizer) = load(&options).expect("the model");
        let capacity = model.limits().step_capacity(model.pages().page_size());
        let step = Step::new(model.pages(), capacity).expect("small");
        Run { model, tokenizer, step }
    }

    /// An empty sequence.
    pub(crate) fn sequence(&self) -> Sequence {
        Sequence::new(self.model.pages())
    }

    /// Runs new tokens of sequences, and draws after each of `rows`, greedily.
    pub(crate) fn step(&mut self, sequences: &mut [Sequence], new: &[&[u32]], rows: &[usize]) -> Vec<Sampled> {
        let params = SamplingParams::default();
        let row = |&row: &usize| SampleRow { row, position: 0, params: &params, prompt: &[], generated: &[] };
        self.step_with(sequences, new, &rows.iter().map(row).collect::<Vec<_>>()).expect("a step")
    }

    pub(crate) fn step_with(
        &mut self,
        sequences: &mut [Sequence],
        new: &[&[u32]],
        rows: &[SampleRow<'_>],
    ) -> Result<Vec<Sampled>, Error> {
        for (sequence, new) in sequences.iter_mut().zip(new) {
            sequence.append(new.len()).expect("free pages");
        }
        self.step.build(&*sequences).expect("within the capacity");
        let endless = vec![None; sequences.len()];
        let input = StepInput { step: &self.step, tokens: &new.concat(), rows, endless: &endless };
        let drawn = self.model.run(&input)?;
        self.step.commit(sequences);
        Ok(drawn)
    }

    /// The logits of the last step's rows.
    pub(crate) fn logits(&self, rows: usize) -> Vec<Vec<f32>> {
        let vocab = self.model.config().vocab;
        self.model.logits(rows).expect("on the host").chunks(vocab).map(<[f32]>::to_vec).collect()
    }

    /// The tokens that greedy decoding adds to the prompts of sequences, all of them in each step.
    pub(crate) fn greedy(&mut self, sequences: &mut [Sequence], prompts: &[&[u32]], count: usize) -> Vec<Vec<u32>> {
        let mut end = 0;
        let ends = prompts.iter().map(|prompt| {
            end += prompt.len();
            end - 1
        });
        let rows: Vec<_> = ends.collect();
        let mut drawn = self.step(sequences, prompts, &rows);
        let mut texts: Vec<Vec<u32>> = vec![Vec::new(); prompts.len()];
        let rows: Vec<_> = (0..prompts.len()).collect();
        loop {
            texts.iter_mut().zip(&drawn).for_each(|(text, drawn)| text.push(drawn.token));
            if texts[0].len() == count {
                return texts;
            }
            let new: Vec<[u32; 1]> = drawn.iter().map(|drawn| [drawn.token]).collect();
            drawn = self.step(sequences, &new.iter().map(|new| &new[..]).collect::<Vec<_>>(), &rows);
        }
    }
}

/// The natural log-probability of a token.
pub(crate) fn log_prob(logits: &[f32], token: u32) -> f64 {
    let most = f64::from(logits.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    let sum: f64 = logits.iter().map(|&x| (f64::from(x) - most).exp()).sum();
    f64::from(logits[token as usize]) - most - sum.ln()
}

impl Run {
    pub(crate) fn model_pages_used(&self) -> usize {
        self.model.pages().stats().used
    }
}
