//! Requests, and what happens to them.

use std::sync::Arc;

use crate::{
    model::Endless,
    sampling::{Sampled, SamplingParams},
};

/// The number of a request in its engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub(super) u64);

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
    /// Tokens to guess ahead by prompt lookup, at most; 0 for none. The text is the same. Endless texts do not guess.
    pub speculate: usize,
    /// Whether the log-probabilities of the prompt's tokens are told ([`Event::Prompt`]). The prompt is computed whole
    /// then.
    pub score_prompt: bool,
    /// Which keys the text sees if it may exceed the context of the model; `None` for all keys, within the context.
    pub endless: Option<Endless>,
}

impl Request {
    /// One greedy continuation of a prompt.
    pub fn new(prompt: impl Into<Arc<[u32]>>, max_tokens: usize) -> Self {
        Request {
            prompt: prompt.into(),
            sampling: SamplingParams::default(),
            max_tokens,
            choices: 1,
            ignore_eos: false,
            stop_tokens: Vec::new(),
            namespace: None,
            speculate: 0,
            score_prompt: false,
            endless: None,
        }
    }
}

/// Why a choice ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// A token that ends a text, or the caller ended it.
    Stop,
    /// `max_tokens`, or the context of the model.
    Length,
    /// The client went away.
    Cancelled,
}

/// What happens to a request: [`Event::Started`], [`Event::Prompt`] where it is asked for, tokens, and the end of each
/// choice; or [`Event::Failed`].
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The request left the queue; its prompt is being computed.
    Started {
        /// Tokens of the prompt whose keys were cached.
        cached_tokens: usize,
    },
    /// Further tokens of the prompt with their log-probabilities, from its second token on: the first has none.
    Prompt {
        /// The tokens.
        scored: Vec<Sampled>,
    },
    /// A token of a choice. A token that ends the text is among them.
    Token {
        /// The choice.
        choice: usize,
        /// The token.
        sampled: Sampled,
    },
    /// A choice ended. After the last choice nothing follows.
    Finished {
        /// The choice.
        choice: usize,
        /// Why.
        reason: FinishReason,
    },
    /// The request failed, with all of its choices; nothing follows.
    Failed {
        /// The reason, for the client.
        message: String,
    },
}

/// An event, and whose it is.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestEvent {
    /// The request.
    pub request: RequestId,
    /// What happened.
    pub event: Event,
}
