//! What runs a step: the tokens of a batch go in, the tokens that were drawn come out.
//!
//! What is not said of errors here: functions fail when there is too little memory, or when the device fails. Launches
//! fail for buffers that are too small, readers of files with [`Error::Metadata`].

pub mod config;
mod dequant;
pub mod fetch;
pub mod forward;
pub mod gguf;
mod key_rotation;
pub mod kv_cache;
pub mod llama;
pub mod math;
mod presets;
pub mod random_weights;
pub mod runner;
pub mod sampler;
mod shard;
pub mod step_memory;
pub mod steps;
pub mod tensor_parallel;
pub mod weights;

use attn_cache::{Pages, Step, StepCapacity};

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
    /// Tokens that are drawn in a step; at least `step_sequences`.
    pub step_rows: usize,
    /// Log-probabilities of the most likely tokens that are returned with a token, at most.
    pub top_logprobs: usize,
    /// Whether the model runs endless texts: it rotates keys when it reads them, by their place in the cache.
    pub endless: bool,
    /// The token that ends a text.
    pub eos: u32,
}

impl ModelLimits {
    /// Refuses a step that there is no memory for, or with a token outside of the vocabulary.
    pub(crate) fn check(&self, input: &StepInput<'_>) -> Result<(), Error> {
        let limit = |what, got, limit| if got > limit { Err(Error::Step { what, got, limit }) } else { Ok(()) };
        limit("the number of new tokens", input.tokens.len(), self.step_tokens)?;
        let token = input.tokens.iter().copied().max().unwrap_or(0) as usize;
        limit("a token", token, self.vocab - 1)?;
        let row = input.rows.last().map_or(0, |row| row.row);
        limit("a row to draw from", row, input.tokens.len().saturating_sub(1))
    }

    /// The capacity of the [`Step`]s that the engine builds, for pages of `page_size` tokens.
    pub fn step_capacity(&self, page_size: usize) -> StepCapacity {
        // the window of an endless text may begin and end within a page
        let pages_per_sequence = self.context.div_ceil(page_size) + 2 * usize::from(self.endless);
        StepCapacity {
            sequences: self.step_sequences,
            tokens: self.step_tokens,
            pages: self.step_sequences * pages_per_sequence,
            pages_per_sequence,
            levels: 4,
        }
    }
}

/// Which keys an endless text sees: StreamingLLM (arXiv 2309.17453).
///
/// Pages that no later query sees leave the page table, and positions of the step count what is left. So neither
/// exceeds those of training, and a text never ends. A text sees all keys of the pages that it keeps: besides these
/// keys fewer than a page before the window, and after the sinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Endless {
    /// Keys at the start.
    pub sinks: usize,
    /// The last keys, that of the query included.
    pub window: usize,
}

impl Default for Endless {
    /// 1,024 keys, 4 of them sinks, as in the paper.
    fn default() -> Self {
        Endless { sinks: 4, window: 1020 }
    }
}

/// A new token of a step after which a token is drawn.
#[derive(Clone, Copy, Debug)]
pub struct SampleRow<'a> {
    /// The index of the new token in the step.
    pub row: usize,
    /// The position of the token that is drawn, in its text. In an endless text it exceeds positions of the step.
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
    /// The rows to draw from, in ascending order of `row`. A row occurs once for each choice that begins there.
    pub rows: &'a [SampleRow<'a>],
    /// For each request of the step, in its order, which keys it sees; `None` for all of them. Empty if all see all.
    pub endless: &'a [Option<Endless>],
}

/// A model with its KV cache.
pub trait Model: Send {
    /// What the engine has to know.
    fn limits(&self) -> ModelLimits;

    /// The pages of the KV cache.
    fn pages(&self) -> &Pages;

    /// Makes the page copies of the step, writes keys and values of the new tokens, and draws a token for each row. A
    /// row whose logits are not finite has a token outside of the vocabulary: the request of that row fails alone.
    ///
    /// # Errors
    ///
    /// Failures of the device. The cache then holds nothing reliable of the step's new tokens.
    fn run(&mut self, input: &StepInput<'_>) -> Result<Vec<Sampled>, Error>;
}
