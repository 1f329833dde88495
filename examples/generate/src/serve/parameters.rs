//! Parameters that completions and chats share.

use std::sync::Arc;

use rand::Rng;
use serde::Deserialize;

use super::{failure::Failure, fields::fields, items::Stops};
use crate::{engine::Request, model::Endless, sampling::SamplingParams};

/// How an answer is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    Whole,
    Stream { include_usage: bool },
}

/// What a stream sends besides text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StreamOptions {
    #[serde(default)]
    pub(crate) include_usage: Option<bool>,
    /// Padding against those who measure the lengths of what is encrypted; there is none.
    #[serde(default)]
    include_obfuscation: Option<bool>,
}

fields! {
    /// OpenAI's parameters, vLLM's extensions and our own, as they come.
    pub(crate) struct Parameters {
        model: String,
        stream: bool,
        stream_options: StreamOptions,
        n: usize,
        stop: Stops,
        temperature: f32,
        top_p: f32,
        top_k: i64,
        min_p: f32,
        seed: i64,
        presence_penalty: f32,
        frequency_penalty: f32,
        repetition_penalty: f32,
        ignore_eos: bool,
        stop_token_ids: Vec<u32>,
        allowed_token_ids: Vec<u32>,
        cache_salt: String,
        endless: Endless,
    }
}

/// Tokens that end a text, at most: each is compared with each token.
const MAX_STOP_TOKENS: usize = 128;
/// Bytes of a cache salt, at most: each prompt keeps it.
const MAX_SALT: usize = 256;

impl Parameters {
    /// How the answer is sent.
    pub(crate) fn delivery(&self) -> Result<Delivery, Failure> {
        match self.stream_options {
            options if self.stream.unwrap_or(false) => {
                let include_usage = options.unwrap_or_default().include_usage.unwrap_or(false);
                Ok(Delivery::Stream { include_usage })
            }
            None => Ok(Delivery::Whole),
            Some(_) => Err(Failure::parameter("stream_options", "stream_options are for `\"stream\": true` alone")),
        }
    }

    /// Choices of each prompt.
    pub(crate) fn choices(&self) -> usize {
        self.n.unwrap_or(1)
    }

    /// The stop strings.
    pub(crate) fn stops(&self) -> Result<Arc<[Arc<str>]>, Failure> {
        let stops = self.stop.as_ref().map_or(&[][..], |stops| &stops.0);
        if stops.iter().any(|stop| stop.is_empty()) {
            return Err(Failure::parameter("stop", "a stop string is empty; every text begins with it"));
        }
        Ok(stops.into())
    }

    /// The requests of the engine for prompts. The engine checks ranges.
    pub(crate) fn requests(
        &self,
        prompts: Vec<Vec<u32>>,
        max_tokens: usize,
        top_logprobs: usize,
        vocab: usize,
    ) -> Result<Vec<Request>, Failure> {
        let top_k = match self.top_k.unwrap_or(0) {
            // vLLM's older name for all tokens
            -1 => 0,
            top_k => u32::try_from(top_k)
                .map_err(|_| Failure::parameter("top_k", format!("top_k is {top_k}; it must be 0 or more")))?,
        };
        if let Some(salt) = self.cache_salt.as_ref().filter(|salt| salt.len() > MAX_SALT) {
            let message = format!("cache_salt has {} bytes; it may have {MAX_SALT}", salt.len());
            return Err(Failure::parameter("cache_salt", message));
        }
        let sampling = SamplingParams {
            temperature: self.temperature.unwrap_or(1.0),
            top_k,
            top_p: self.top_p.unwrap_or(1.0),
            min_p: self.min_p.unwrap_or(0.0),
            repetition_penalty: self.repetition_penalty.unwrap_or(1.0),
            presence_penalty: self.presence_penalty.unwrap_or(0.0),
            frequency_penalty: self.frequency_penalty.unwrap_or(0.0),
            top_logprobs,
            allowed: self.allowed_token_ids.as_deref().map(|tokens| mask(tokens, vocab)).transpose()?,
            ..SamplingParams::default()
        };
        let stop_tokens = self.stop_token_ids.clone().unwrap_or_default();
        if stop_tokens.len() > MAX_STOP_TOKENS {
            let message = format!("there are more than {MAX_STOP_TOKENS} tokens, which is the most");
            return Err(Failure::parameter("stop_token_ids", message));
        }
        let request = |prompt: Vec<u32>| Request {
            sampling: SamplingParams {
                seed: self.seed.map_or_else(|| rand::rng().random(), i64::cast_unsigned),
                ..sampling.clone()
            },
            choices: self.choices(),
            ignore_eos: self.ignore_eos.unwrap_or(false),
            stop_tokens: stop_tokens.clone(),
            namespace: self.cache_salt.clone(),
            endless: self.endless,
            ..Request::new(prompt, max_tokens)
        };
        Ok(prompts.into_iter().map(request).collect())
    }
}

/// One bit for each token of the vocabulary.
fn mask(tokens: &[u32], vocab: usize) -> Result<Arc<[u32]>, Failure> {
    let mut words = vec![0u32; vocab.div_ceil(32)];
    for &token in tokens {
        if token as usize >= vocab {
            let message = format!("token {token} is not in the vocabulary of {vocab} tokens");
            return Err(Failure::parameter("allowed_token_ids", message));
        }
        words[token as usize / 32] |= 1 << (token % 32);
    }
    if tokens.is_empty() {
        return Err(Failure::parameter("allowed_token_ids", "no token is allowed; leave it out to allow all"));
    }
    Ok(words.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_those_of_openai() {
        let requests = Parameters::default().requests(vec![vec![1]], 16, 0, 70).expect("a request");
        let Request { sampling, choices, ignore_eos, .. } = &requests[0];
        let expected = SamplingParams { temperature: 1.0, seed: sampling.seed, ..SamplingParams::default() };
        assert_eq!((sampling, *choices, *ignore_eos), (&expected, 1, false));
    }
}
