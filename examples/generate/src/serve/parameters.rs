//! Parameters that completions and chats share.

use std::sync::Arc;

use rand::Rng;
use serde::Deserialize;

use super::{answer::Delivery, failure::Failure};
use crate::{engine::Request, model::Endless, sampling::SamplingParams};

/// Stop strings of a request, at most.
const MAX_STOPS: usize = 16;

/// One value or several.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged, expecting = "this is neither a value of the right type nor an array of them")]
pub(crate) enum OneOrMany<T> {
    One(T),
    Many(Vec<T>),
}

impl<T> OneOrMany<T> {
    pub(crate) fn into_vec(self) -> Vec<T> {
        match self {
            OneOrMany::One(value) => vec![value],
            OneOrMany::Many(values) => values,
        }
    }
}

/// What a stream sends besides text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StreamOptions {
    #[serde(default)]
    pub(crate) include_usage: bool,
}

/// An extension: which keys an endless text sees (StreamingLLM). Such a text may exceed the context of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct EndlessKeys {
    /// First tokens.
    pub(crate) sinks: usize,
    /// Last tokens.
    pub(crate) window: usize,
}

impl Default for EndlessKeys {
    /// Those of the command line.
    fn default() -> Self {
        let Endless { sinks, window } = Endless::default();
        EndlessKeys { sinks, window }
    }
}

/// OpenAI's parameters, vLLM's extensions and our own, as they come.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Parameters {
    pub(crate) model: Option<String>,
    pub(crate) stream: bool,
    pub(crate) stream_options: Option<StreamOptions>,
    pub(crate) n: Option<usize>,
    pub(crate) stop: Option<OneOrMany<String>>,
    pub(crate) temperature: Option<f32>,
    pub(crate) top_p: Option<f32>,
    pub(crate) top_k: Option<i64>,
    pub(crate) min_p: Option<f32>,
    pub(crate) seed: Option<i64>,
    pub(crate) presence_penalty: Option<f32>,
    pub(crate) frequency_penalty: Option<f32>,
    pub(crate) repetition_penalty: Option<f32>,
    pub(crate) ignore_eos: bool,
    pub(crate) stop_token_ids: Vec<u32>,
    pub(crate) allowed_token_ids: Option<Vec<u32>>,
    pub(crate) cache_salt: Option<String>,
    pub(crate) endless: Option<EndlessKeys>,
}

impl Parameters {
    /// The names of the fields. [`super::body::parse`] takes them out of a body.
    pub(crate) const NAMES: [&str; 18] = [
        "model",
        "stream",
        "stream_options",
        "n",
        "stop",
        "temperature",
        "top_p",
        "top_k",
        "min_p",
        "seed",
        "presence_penalty",
        "frequency_penalty",
        "repetition_penalty",
        "ignore_eos",
        "stop_token_ids",
        "allowed_token_ids",
        "cache_salt",
        "endless",
    ];

    /// How the answer is sent.
    ///
    /// # Errors
    ///
    /// Options of a stream where none is asked for.
    pub(crate) fn delivery(&self) -> Result<Delivery, Failure> {
        match self.stream_options {
            options if self.stream => Ok(Delivery::Stream { include_usage: options.unwrap_or_default().include_usage }),
            None => Ok(Delivery::Whole),
            Some(_) => Err(Failure::parameter("stream_options", "stream_options are for `\"stream\": true` alone")),
        }
    }

    /// Choices of each prompt.
    pub(crate) fn choices(&self) -> usize {
        self.n.unwrap_or(1)
    }

    /// The stop strings.
    ///
    /// # Errors
    ///
    /// An empty string, and more strings than are looked for.
    pub(crate) fn stops(&self) -> Result<Vec<String>, Failure> {
        let stops = self.stop.clone().map_or(Vec::new(), OneOrMany::into_vec);
        if stops.len() > MAX_STOPS {
            let message = format!("{} stop strings; at most {MAX_STOPS} are looked for", stops.len());
            return Err(Failure::parameter("stop", message));
        }
        if stops.iter().any(String::is_empty) {
            return Err(Failure::parameter("stop", "a stop string is empty; every text begins with it"));
        }
        Ok(stops)
    }

    /// The request of the engine for one prompt. The engine checks ranges.
    ///
    /// # Errors
    ///
    /// Parameters that no request of the engine expresses.
    pub(crate) fn request(
        &self,
        prompt: Vec<u32>,
        max_tokens: usize,
        top_logprobs: usize,
        vocab: usize,
    ) -> Result<Request, Failure> {
        let top_k = match self.top_k.unwrap_or(0) {
            // vLLM's older name for all tokens
            -1 => 0,
            top_k => u32::try_from(top_k)
                .map_err(|_| Failure::parameter("top_k", format!("top_k is {top_k}; it must be 0 or more")))?,
        };
        let sampling = SamplingParams {
            temperature: self.temperature.unwrap_or(1.0),
            top_k,
            top_p: self.top_p.unwrap_or(1.0),
            min_p: self.min_p.unwrap_or(0.0),
            repetition_penalty: self.repetition_penalty.unwrap_or(1.0),
            presence_penalty: self.presence_penalty.unwrap_or(0.0),
            frequency_penalty: self.frequency_penalty.unwrap_or(0.0),
            seed: self.seed.map_or_else(|| rand::rng().random(), i64::cast_unsigned),
            top_logprobs,
            allowed: self.allowed_token_ids.as_deref().map(|tokens| mask(tokens, vocab)).transpose()?,
        };
        Ok(Request {
            sampling,
            choices: self.choices(),
            ignore_eos: self.ignore_eos,
            stop_tokens: self.stop_token_ids.clone(),
            namespace: self.cache_salt.clone(),
            endless: self.endless.map(|EndlessKeys { sinks, window }| Endless { sinks, window }),
            ..Request::new(prompt, max_tokens)
        })
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
    fn names_are_those_of_the_fields() {
        for name in Parameters::NAMES {
            // a value of no field's type: the message is about the type, and not about the name
            let body = serde_json::json!({ name: { "x": [] } });
            let message = serde_json::from_value::<Parameters>(body).expect_err("no such value").to_string();
            assert!(!message.contains(&format!("unknown field `{name}`")), "{message}");
        }
        let message = serde_json::from_str::<Parameters>(r#"{"_": 1}"#).expect_err("no such field").to_string();
        assert_eq!(message.matches('`').count() / 2, 1 + Parameters::NAMES.len(), "{message}");
    }

    #[test]
    fn defaults_are_those_of_openai() {
        let request = Parameters::default().request(vec![1], 16, 0, 70).expect("a request");
        let expected = SamplingParams { temperature: 1.0, seed: request.sampling.seed, ..SamplingParams::default() };
        assert_eq!((request.sampling, request.choices, request.ignore_eos), (expected, 1, false));
    }

    #[test]
    fn masks_have_a_bit_for_each_token() {
        assert_eq!(*mask(&[0, 33, 69], 70).expect("a mask"), [1, 2, 32]);
        assert!(mask(&[70], 70).expect_err("outside").message.contains("vocabulary of 70"));
        assert!(mask(&[], 70).is_err());
    }

    #[test]
    fn what_no_engine_runs_is_refused() {
        let stop = |stops: &[&str]| Parameters {
            stop: Some(OneOrMany::Many(stops.iter().map(|&stop| stop.to_owned()).collect())),
            ..Parameters::default()
        };
        assert!(stop(&["a", ""]).stops().is_err());
        assert!(stop(&["a"; 17]).stops().is_err());
        assert_eq!(stop(&["a"; 16]).stops().map(|stops| stops.len()), Ok(16));
        let parameters = Parameters { top_k: Some(-2), ..Parameters::default() };
        assert_eq!(parameters.request(vec![1], 1, 0, 70).expect_err("negative").param.as_deref(), Some("top_k"));
        let parameters = Parameters { stream_options: Some(StreamOptions::default()), ..Parameters::default() };
        assert!(parameters.delivery().is_err());
    }
}
