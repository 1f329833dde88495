//! The texts of one HTTP request, while they are made.

use std::{
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll},
    time::Instant,
};

use super::{
    app::App,
    body::Held,
    choice::{ChoiceText, Chunk},
    cost::Ask,
    failure::Failure,
    limits::Claim,
    parameters::Delivery,
    text::Text,
};
use crate::{
    engine::{Event, FinishReason, Request, RequestStream},
    sampling::Sampled,
};

/// Counts of tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) prompt: usize,
    pub(crate) cached: usize,
    pub(crate) generated: usize,
}

/// Why a choice ended, in the words of the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finish {
    /// `stop`, `length`, or vLLM's `abort`.
    pub(crate) reason: &'static str,
    /// The stop string that was found.
    pub(crate) stop: Option<String>,
}

/// What is new. Choice `c` of prompt `p` has the index `p * n + c`.
#[derive(Debug)]
pub(crate) enum Update {
    /// All tokens of a prompt but its first, with their log-probabilities.
    Prompt { prompt: usize, scored: Vec<Sampled> },
    /// Text of a choice.
    Text { choice: usize, chunk: Chunk },
    /// The rest of a choice.
    Finished { choice: usize, chunk: Chunk, finish: Finish },
    /// Nothing follows.
    Failed(Failure),
}

/// The choices of all prompts of an HTTP request. Dropping it cancels what still runs.
pub(crate) struct Generation {
    app: Arc<App>,
    streams: Vec<RequestStream>,
    /// Choices of each prompt.
    n: usize,
    /// The text of each choice; `None` when it has ended.
    choices: Vec<Option<ChoiceText>>,
    /// Tokens of each prompt that are to be scored, and those that were.
    scores: Vec<(usize, Vec<Sampled>)>,
    /// Whether tokens are given beside their text.
    logprobs: bool,
    _held: Held,
    usage: Usage,
    begin: Instant,
    /// When the last token of each choice came.
    last: Vec<Option<Instant>>,
    /// The stream to poll first, so that none starves.
    next: usize,
}

impl Generation {
    /// Submits the requests; all of them have the same number of choices.
    pub(crate) fn begin(
        app: &Arc<App>,
        requests: Vec<Request>,
        stops: &Arc<[Arc<str>]>,
        (delivery, logprobs, echo): (Delivery, bool, usize),
        mut held: Held,
    ) -> Result<Self, Failure> {
        for request in &requests {
            app.engine.check(request).map_err(|refused| app.refused(refused))?;
        }
        let ask = Ask { requests: &requests, stops, logprobs, delivery, echo };
        let bytes = ask.check(app)?;
        let mut claim = Claim::default();
        app.memory.claim(&mut claim, bytes)?;
        // that of the body is free now
        held.claim = claim;
        let n = requests.first().map_or(1, |request| request.choices);
        let prompt = requests.iter().map(|request| request.prompt.len()).sum();
        let choices = requests.len() * n;
        let scores = requests.iter().map(|request| {
            let rest = if request.score_prompt { request.prompt.len() - 1 } else { 0 };
            (rest, Vec::new())
        });
        let scores = scores.collect();
        let streams: Result<Vec<_>, _> = requests
            .into_iter()
            .map(|request| app.engine.submit(Request { speculate: app.options.speculate, ..request }))
            .map(|stream| stream.map_err(|refused| app.refused(refused)))
            .collect();
        let streams = streams?;
        app.metrics.prompt_tokens(prompt);
        Ok(Generation {
            app: Arc::clone(app),
            streams,
            n,
            choices: (0..choices).map(|_| Some(ChoiceText::new(Arc::clone(stops)))).collect(),
            scores,
            logprobs,
            _held: held,
            usage: Usage { prompt, ..Usage::default() },
            begin: Instant::now(),
            last: vec![None; choices],
            next: 0,
        })
    }

    /// Choices of all prompts.
    pub(crate) fn count(&self) -> usize {
        self.choices.len()
    }

    /// Counts so far.
    pub(crate) fn usage(&self) -> Usage {
        self.usage
    }

    /// The tokenizer.
    pub(crate) fn text(&self) -> &dyn Text {
        &*self.app.text
    }

    /// The next update; `None` when all choices have ended.
    pub(crate) async fn next(&mut self) -> Option<Update> {
        while self.choices.iter().any(Option::is_some) {
            let (prompt, event) = poll_fn(|cx| self.poll_streams(cx)).await?;
            if let Some(update) = self.update(prompt, event) {
                return Some(update);
            }
        }
        None
    }

    /// The next event of any stream, with the index of its prompt.
    fn poll_streams(&mut self, cx: &mut Context<'_>) -> Poll<Option<(usize, Event)>> {
        let count = self.streams.len();
        let mut pending = false;
        for offset in 0..count {
            let prompt = (self.next + offset) % count;
            match self.streams[prompt].poll_recv(cx) {
                Poll::Ready(Some(event)) => {
                    self.next = prompt + 1;
                    return Poll::Ready(Some((prompt, event)));
                }
                Poll::Ready(None) => {}
                Poll::Pending => pending = true,
            }
        }
        if pending { Poll::Pending } else { Poll::Ready(None) }
    }

    fn update(&mut self, prompt: usize, event: Event) -> Option<Update> {
        match event {
            Event::Started { cached_tokens } => {
                self.usage.cached += cached_tokens;
                self.app.metrics.cached_tokens(cached_tokens);
                None
            }
            Event::Prompt { scored } => {
                let (rest, all) = &mut self.scores[prompt];
                *rest = rest.saturating_sub(scored.len());
                all.extend(scored);
                (*rest == 0).then(|| Update::Prompt { prompt, scored: std::mem::take(all) })
            }
            Event::Token { choice: within, sampled } => {
                let choice = prompt * self.n + within;
                // tokens that were drawn before the engine knew of a stop string
                let text = self.choices[choice].as_mut()?;
                self.usage.generated += 1;
                let bytes = self.app.text.bytes(sampled.token);
                let (mut chunk, stop) = text.push(sampled, &bytes);
                if !self.logprobs {
                    chunk.tokens.clear();
                }
                self.time(choice);
                if stop.is_some() {
                    self.streams[prompt].stop(within);
                    return Some(self.finish(choice, chunk, Finish { reason: "stop", stop }));
                }
                let silent = chunk.text.is_empty() && chunk.tokens.is_empty();
                (!silent).then_some(Update::Text { choice, chunk })
            }
            Event::Finished { choice: within, reason } => {
                let choice = prompt * self.n + within;
                let (mut chunk, stop) = self.choices[choice].as_mut()?.finish();
                if !self.logprobs {
                    chunk.tokens.clear();
                }
                let reason = match reason {
                    FinishReason::Stop => "stop",
                    _ if stop.is_some() => "stop",
                    FinishReason::Length => "length",
                    FinishReason::Cancelled => "abort",
                };
                Some(self.finish(choice, chunk, Finish { reason, stop }))
            }
            Event::Failed { message } => {
                self.app.metrics.finished("failed", self.begin.elapsed());
                self.choices.fill_with(|| None);
                self.streams.clear();
                Some(Update::Failed(Failure::failed(message).code("request_failed")))
            }
        }
    }

    fn finish(&mut self, choice: usize, chunk: Chunk, finish: Finish) -> Update {
        self.choices[choice] = None;
        self.app.metrics.finished(finish.reason, self.begin.elapsed());
        self.app.pace.ended(self.begin.elapsed());
        Update::Finished { choice, chunk, finish }
    }

    /// Measures a token of a choice.
    fn time(&mut self, choice: usize) {
        let now = Instant::now();
        match self.last[choice].replace(now) {
            None => self.app.metrics.first_token(now - self.begin),
            Some(last) => self.app.metrics.next_token(now - last),
        }
    }
}

impl Drop for Generation {
    fn drop(&mut self) {
        for _open in self.choices.iter().flatten() {
            self.app.metrics.finished("cancelled", self.begin.elapsed());
        }
    }
}
