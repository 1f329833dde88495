//! How the next token of a request is chosen.

use std::sync::Arc;

/// How tokens are drawn. The names and ranges are those of OpenAI's and vLLM's APIs.
#[derive(Clone, Debug, PartialEq, clap::Args)]
pub struct SamplingParams {
    /// Logits are divided by it; 0 takes the token with the largest logit.
    #[arg(long, default_value_t = 0.0)]
    pub temperature: f32,
    /// The most likely tokens that are kept; 0 keeps all.
    #[arg(long, value_name = "TOKENS", default_value_t = 0)]
    pub top_k: u32,
    /// The mass of the most likely tokens that are kept, in 0..=1; 1 keeps all.
    #[arg(long, value_name = "MASS", default_value_t = 1.0)]
    pub top_p: f32,
    /// Tokens less likely than this fraction of the most likely one are dropped; 0 drops none.
    #[arg(long, value_name = "FRACTION", default_value_t = 0.0)]
    pub min_p: f32,
    /// Divides positive and multiplies negative logits of tokens that occurred; 1 does nothing.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    pub repetition_penalty: f32,
    /// Subtracted from the logits of tokens that were generated.
    #[arg(long, value_name = "PENALTY", default_value_t = 0.0)]
    pub presence_penalty: f32,
    /// Subtracted from the logit of a token once for each time it was generated.
    #[arg(long, value_name = "PENALTY", default_value_t = 0.0)]
    pub frequency_penalty: f32,
    /// Seed of the request: a token depends on it, on its position and on the logits alone.
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    pub seed: u64,
    /// Log-probabilities of the most likely tokens to return with each token.
    #[arg(skip)]
    pub top_logprobs: usize,
    /// Tokens that may be drawn, one bit each; `None` allows all.
    #[arg(skip)]
    pub allowed: Option<Arc<[u32]>>,
    /// The token whose log-probability is asked for, in place of the one that is drawn. The engine sets it for tokens
    /// of prompts.
    #[arg(skip)]
    pub score: Option<u32>,
}

impl Default for SamplingParams {
    /// Greedy decoding.
    fn default() -> Self {
        SamplingParams {
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            seed: 0,
            top_logprobs: 0,
            allowed: None,
            score: None,
        }
    }
}

/// A token that was drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampled {
    /// The token; one outside of the vocabulary where no token is allowed, or where all logits are NaN.
    pub token: u32,
    /// The log-probability of the token, before filters.
    pub logprob: f32,
    /// The most likely tokens with their log-probabilities, in falling order.
    pub top: Vec<(u32, f32)>,
}
