//! Requests and the loop that serves them.

use std::sync::Arc;

use crate::sampling::{Sampled, SamplingParams};

/// A text to continue.
#[derive(Clone, Debug)]
pub struct Request {
    /// Tokens of the prompt, at least one.
    pub prompt: Arc<[u32]>,
    /// How tokens are drawn. Choice `i` of a request uses the seed plus `i`.
    pub sampling: SamplingParams,
    /// Tokens to generate for each choice, at most.
    pub max_tokens: usize,
    /// Choices: continuations of the same prompt, which share its pages.
    pub choices: usize,
    /// Whether the token that ends a text is drawn like any other.
    pub ignore_eos: bool,
    /// Further tokens that end a text.
    pub stop_tokens: Vec<u32>,
    /// Prefixes are shared by requests of the same namespace alone.
    pub namespace: Option<String>,
    /// Tokens to guess ahead by prompt lookup; 0 for none.
    pub speculate: usize,
}

/// Why a choice ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// A token that ends a text.
    Stop,
    /// `max_tokens`, or the context of the model.
    Length,
    /// The client went away.
    Cancelled,
}

/// What happens to a request.
#[derive(Clone, Debug)]
pub enum Event {
    /// A token of a choice.
    Token {
        /// The choice.
        choice: usize,
        /// The token.
        sampled: Sampled,
    },
    /// A choice ended.
    Finished {
        /// The choice.
        choice: usize,
        /// Why.
        reason: FinishReason,
    },
    /// The request failed; nothing follows.
    Failed {
        /// The reason, for the client.
        message: String,
    },
}
