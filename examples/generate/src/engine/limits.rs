//! What a request may ask for.

use attn_cache::Pages;

use super::{refused::Refused, request::Request};
use crate::{
    model::{Endless, ModelLimits},
    sampling::SamplingParams,
};

/// The limits of an engine, which never change: a request is checked against them on any thread.
#[derive(Clone, Debug)]
pub(super) struct RequestLimits {
    pub(super) model: ModelLimits,
    pub(super) pages: Pages,
    pub(super) max_waiting: usize,
    pub(super) max_unread: usize,
}

impl RequestLimits {
    /// Pages that endless texts may have, all together. They keep what they have, so the rest is for texts that end.
    pub(super) fn endless_pages(&self) -> usize {
        self.pages.count() / 2
    }

    /// Pages that an endless text never exceeds: its sinks, its window, which may begin within a page, and a copy.
    pub(super) fn pages_of_endless(&self, endless: Endless) -> usize {
        let page_size = self.pages.page_size();
        endless.sinks.div_ceil(page_size) + endless.window.div_ceil(page_size) + 2
    }

    /// Checks a request.
    pub(super) fn check(&self, request: &Request) -> Result<(), Refused> {
        let ModelLimits { vocab, context, step_sequences, .. } = self.model;
        if request.prompt.is_empty() {
            return Err(Refused::EmptyPrompt);
        }
        if request.prompt.len() >= context {
            return Err(Refused::PromptTooLong { tokens: request.prompt.len(), most: context - 1 });
        }
        self.check_tokens("the prompt", &request.prompt)?;
        self.check_tokens("the list of stop tokens", &request.stop_tokens)?;
        // a prompt that is scored takes a row beside those of its choices
        let most = step_sequences - usize::from(request.score_prompt && request.prompt.len() > 1);
        count("the number of choices", request.choices, most)?;
        count("the number of tokens to generate", request.max_tokens, usize::MAX)?;
        check_sampling(&request.sampling)?;
        if request.sampling.top_logprobs > self.model.top_logprobs {
            let (value, most) = (request.sampling.top_logprobs, self.model.top_logprobs);
            return Err(Refused::Count { name: "the number of log-probabilities", value, most });
        }
        check_mask(request.sampling.allowed.as_deref(), vocab)?;
        match request.endless {
            Some(endless) => self.check_endless(request, endless),
            None => self.check_pages(request),
        }
    }

    fn check_tokens(&self, what: &'static str, tokens: &[u32]) -> Result<(), Refused> {
        let vocab = self.model.vocab;
        match tokens.iter().find(|&&token| token as usize >= vocab) {
            Some(&token) => Err(Refused::TokenOutsideVocabulary { what, token, vocab }),
            None => Ok(()),
        }
    }

    /// One choice must fit into the pool: others wait until it has ended. The last token is drawn and not computed.
    fn check_pages(&self, request: &Request) -> Result<(), Refused> {
        let tokens = request.prompt.len().saturating_add(request.max_tokens - 1).min(self.model.context);
        self.fits(tokens.div_ceil(self.pages.page_size()), self.pages.count())
    }

    fn check_endless(&self, request: &Request, endless: Endless) -> Result<(), Refused> {
        let refuse = |why: String| Err(Refused::Endless { why });
        let (context, keys) = (self.model.context, endless.sinks.saturating_add(endless.window));
        if !self.model.endless {
            return refuse("the model rotates keys when it writes them; start one that rotates them on the fly".into());
        }
        if endless.window == 0 || keys > context {
            let Endless { sinks, window } = endless;
            return refuse(format!(
                "{sinks} sinks and a window of {window} keys; the window has at least 1 key, and both at most {context}"
            ));
        }
        if request.prompt.len() > keys {
            let tokens = request.prompt.len();
            return refuse(format!("the prompt has {tokens} tokens; sinks and window hold {keys}"));
        }
        self.fits(request.choices.saturating_mul(self.pages_of_endless(endless)), self.endless_pages())
    }

    fn fits(&self, need: usize, total: usize) -> Result<(), Refused> {
        let now = self.pages.stats();
        if need > total { Err(Refused::NeverFits { need, free: now.free + now.evictable, total }) } else { Ok(()) }
    }
}

fn count(name: &'static str, value: usize, most: usize) -> Result<(), Refused> {
    if (1..=most).contains(&value) { Ok(()) } else { Err(Refused::Count { name, value, most }) }
}

fn check_sampling(sampling: &SamplingParams) -> Result<(), Refused> {
    let unit = |value: f32| (0.0..=1.0).contains(&value);
    let range = |name, value: f32, holds: bool, range| {
        if holds { Ok(()) } else { Err(Refused::OutOfRange { name, value: f64::from(value), range }) }
    };
    let SamplingParams { temperature, top_p, min_p, repetition_penalty, .. } = *sampling;
    range("temperature", temperature, temperature.is_finite() && temperature >= 0.0, "finite, 0 or more")?;
    range("top_p", top_p, unit(top_p), "in 0..=1")?;
    range("min_p", min_p, unit(min_p), "in 0..=1")?;
    let positive = repetition_penalty.is_finite() && repetition_penalty > 0.0;
    range("repetition_penalty", repetition_penalty, positive, "finite and more than 0")?;
    let penalties =
        [("presence_penalty", sampling.presence_penalty), ("frequency_penalty", sampling.frequency_penalty)];
    penalties.into_iter().try_for_each(|(name, value)| range(name, value, value.is_finite(), "finite"))
}

fn check_mask(allowed: Option<&[u32]>, vocab: usize) -> Result<(), Refused> {
    let Some(mask) = allowed else { return Ok(()) };
    let want = vocab.div_ceil(32);
    let any = mask.iter().enumerate().any(|(index, &word)| {
        let valid = (vocab - (index * 32).min(vocab)).min(32);
        word & (u64::MAX >> (64 - valid.max(1))) as u32 != 0 && valid > 0
    });
    if mask.len() == want && any { Ok(()) } else { Err(Refused::AllowedMask { words: mask.len(), want }) }
}
