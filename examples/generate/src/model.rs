//! What runs a step: the tokens of a batch go in, the tokens that were drawn come out.

pub mod config;
mod dequant;
pub mod draw;
pub mod fetch;
pub mod forward;
pub mod gguf;
pub mod kv_cache;
pub mod made_up;
pub mod math;
mod presets;
pub mod runner;
pub mod streaming;
pub mod weights;

use attn_cache::{Pages, Step};

use crate::{
    Error,
    sampling::{Sampled, SamplingParams},
};

/// What the engine has to know of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelLimits {
    /// Tokens of the vocabulary; a token is below it.
    pub vocab: usize,
    /// Tokens of a sequence.
    pub context: usize,
    /// New tokens of a step.
    pub step_tokens: usize,
    /// Sequences of a step.
    pub step_sequences: usize,
    /// The token that ends a text.
    pub eos: u32,
}

/// A new token of a step after which a token is drawn.
#[derive(Clone, Copy, Debug)]
pub struct SampleRow<'a> {
    /// The index of the new token in the step.
    pub row: usize,
    /// The position of the token that is drawn, in its sequence.
    pub position: usize,
    /// How it is drawn.
    pub params: &'a SamplingParams,
    /// Prompt of the sequence; repetition penalties count it.
    pub prompt: &'a [u32],
    /// Tokens that were generated so far.
    pub generated: &'a [u32],
}

/// A batch of sequences and their new tokens.
#[derive(Clone, Copy, Debug)]
pub struct StepInput<'a> {
    /// Page tables, slots, positions and page copies; built, and not yet committed.
    pub step: &'a Step,
    /// The new tokens, in the order of the step's requests ([`Step::order`]).
    pub tokens: &'a [u32],
    /// The rows to draw from, in ascending order of `row`.
    pub rows: &'a [SampleRow<'a>],
}

/// A model with its KV cache.
pub trait Model: Send {
    /// What the engine has to know.
    fn limits(&self) -> ModelLimits;

    /// The pages of the KV cache.
    fn pages(&self) -> &Pages;

    /// Makes the page copies of the step, writes keys and values of the new tokens, and draws a token for each row.
    ///
    /// # Errors
    ///
    /// Failures of the device. The cache then holds nothing reliable of the step's new tokens.
    fn run(&mut self, input: &StepInput<'_>) -> Result<Vec<Sampled>, Error>;
}
