//! Choices and memory that a request may take, counted before anything of it is copied.

use std::sync::Arc;

use axum::http::StatusCode;

use super::{app::App, failure::Failure, parameters::Delivery};
use crate::engine::Request;

/// Choices of all prompts of a request. Others wait for as long as it has the steps of the engine.
const MAX_CHOICES: usize = 1024;
/// Bytes of a choice, without what its text takes.
const CHOICE: usize = 1 << 10;
/// Bytes of a token's text and of its place in the engine's text.
const TOKEN: usize = 16;
/// Bytes of a log-probability, as a number and in JSON.
const LOGPROB: usize = 160;
/// Bytes of an event that waits for its client.
const EVENT: usize = 64;
/// Tokens of an endless text that are counted: it takes hours to exceed them.
const ENDLESS_TOKENS: usize = 1 << 17;

/// What decides how much memory the choices of a request may take.
#[derive(Clone, Debug)]
pub(crate) struct Ask<'a> {
    /// One request for each prompt, with the same parameters.
    pub(crate) requests: &'a [Request],
    pub(crate) stops: &'a [Arc<str>],
    pub(crate) logprobs: bool,
    pub(crate) delivery: Delivery,
    /// Bytes of the prompts' texts that the answer repeats.
    pub(crate) echo: usize,
}

impl Ask<'_> {
    /// Bytes, for a model with this context.
    fn bytes(&self, context: usize) -> usize {
        let sum = |of: &dyn Fn(&Request) -> usize| self.requests.iter().map(of).fold(0, usize::saturating_add);
        let mul = usize::saturating_mul;
        let top = |request: &Request| {
            if self.logprobs { mul(LOGPROB, request.sampling.top_logprobs.saturating_add(1)) } else { 0 }
        };
        let stop = self.stops.iter().map(|stop| stop.len()).max().unwrap_or(0);
        let prompts = sum(&|request| mul(request.prompt.len(), mul(4, request.choices).saturating_add(8)));
        let scores = sum(&|request| if request.score_prompt { mul(request.prompt.len(), top(request)) } else { 0 });
        let texts = sum(&|request| {
            let most = if request.endless.is_some() { ENDLESS_TOKENS } else { context };
            let tokens = request.max_tokens.min(most);
            let kept = match self.delivery {
                Delivery::Whole => mul(tokens, TOKEN + top(request)),
                Delivery::Stream { .. } => mul(tokens, 4 + EVENT).min(mul(EVENT, context)),
            };
            // a stop string is looked for in what may be its begin
            let held = stop.min(mul(tokens, TOKEN));
            mul(request.choices, CHOICE.saturating_add(kept).saturating_add(held))
        });
        let repeated = self.requests.first().map_or(1, |request| request.choices);
        [scores, mul(self.echo, repeated.saturating_add(1)), texts].into_iter().fold(prompts, usize::saturating_add)
    }

    /// Bytes that the request may take.
    pub(crate) fn check(&self, app: &App) -> Result<usize, Failure> {
        let (prompts, choices) = (self.requests.len(), self.requests.first().map_or(1, |request| request.choices));
        if prompts.saturating_mul(choices) > MAX_CHOICES {
            let message = format!(
                "{prompts} prompts of {choices} choices are {} choices, and a request may have {MAX_CHOICES}; ask for \
                 fewer choices, or send the prompts in several requests",
                prompts.saturating_mul(choices),
            );
            return Err(Failure::new(StatusCode::BAD_REQUEST, message).code("request_too_large"));
        }
        let (bytes, most) = (self.bytes(app.engine.model_limits().context), app.memory.of_request());
        if bytes <= most {
            return Ok(bytes);
        }
        let message = format!(
            "{prompts} prompts of {choices} choices with {} stop strings may take {} KiB of memory, and a request may \
             take {} KiB; ask for fewer choices, prompts or tokens, for fewer log-probabilities, or for a stream",
            self.stops.len(),
            bytes >> 10,
            most >> 10,
        );
        Err(Failure::new(StatusCode::BAD_REQUEST, message).code("request_too_large"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_prompts_and_stop_strings_multiply() {
        let request = |max_tokens, choices| Request { choices, ..Request::new(vec![1, 2], max_tokens) };
        let bytes = |count: usize, request: Request, stop: usize, delivery| {
            let (requests, stops) = (vec![request; count], [Arc::from("x".repeat(stop))]);
            Ask { requests: &requests, stops: &stops, logprobs: false, delivery, echo: 0 }.bytes(8192)
        };
        let whole = Delivery::Whole;
        let one = bytes(1, request(100, 1), 5, whole);
        assert!((2000..6000).contains(&one), "{one}");
        let many = bytes(64, request(100, 16), 5, whole);
        assert!((900 * one..1024 * one).contains(&many), "{many} of {one}");
        // a stop string is not longer than what it is looked for in
        assert_eq!(bytes(64, request(1, 16), 1 << 20, whole), bytes(64, request(1, 16), 16, whole));
        assert!(bytes(64, request(8192, 16), 1 << 20, whole) > 100 << 20);
        assert_eq!(bytes(1, request(usize::MAX, usize::MAX), 5, whole), usize::MAX);
        let stream = Delivery::Stream { include_usage: true };
        assert!(bytes(1, request(usize::MAX, 64), 5, stream) < 40 << 20);
    }
}
