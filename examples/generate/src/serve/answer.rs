//! How a generation becomes an answer: whole, or as server-sent events.

use std::{convert::Infallible, ops::Range, time::Duration};

use axum::{
    http::header::CONTENT_TYPE,
    response::{
        IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use futures_util::stream::{StreamExt as _, iter, unfold};
use serde_json::Value;

use crate::sampling::Sampled;

use super::{
    choice::Chunk,
    failure::Failure,
    generation::{Finish, Generation, Update, Usage},
    parameters::Delivery,
    text::Text,
};

/// The data of the last event.
const DONE: &str = "[DONE]";

/// The words of one endpoint, as JSON.
pub(crate) trait Shape: Send + Sync + 'static {
    /// What a stream sends before the text of a choice; `None` for nothing, or before its prompt has come.
    fn opening(&self, choice: usize) -> Option<String>;

    /// The log-probabilities of a prompt have come. Choices of it follow.
    fn prompt(&mut self, prompt: usize, scored: &[Sampled], text: &dyn Text);

    /// Choices of each prompt that begin when its log-probabilities have come; 0 where none are asked for.
    fn waiting(&self) -> usize;

    /// A part of a choice, in a stream.
    fn part(&self, choice: usize, chunk: &Chunk, finish: Option<&Finish>, text: &dyn Text) -> String;

    /// A whole choice.
    fn whole(&self, choice: usize, chunk: &Chunk, finish: &Finish, text: &dyn Text) -> String;

    /// The object around choices; `usage` is left out, `null` or an object.
    fn envelope(&self, stream: bool, choices: &[String], usage: Option<Value>) -> String;
}

/// Answers with all of a generation.
pub(crate) async fn answer(generation: Generation, shape: Box<dyn Shape>, delivery: Delivery) -> Response {
    match delivery {
        Delivery::Whole => whole(generation, shape).await,
        Delivery::Stream { include_usage } => stream(generation, shape, include_usage),
    }
}

/// Waits for all choices. If the client goes away, the server drops this future, which cancels the requests.
async fn whole(mut generation: Generation, mut shape: Box<dyn Shape>) -> Response {
    let mut chunks: Vec<Chunk> = vec![Chunk::default(); generation.count()];
    let mut choices: Vec<Option<String>> = vec![None; generation.count()];
    while let Some(update) = generation.next().await {
        match update {
            Update::Prompt { prompt, scored } => shape.prompt(prompt, &scored, generation.text()),
            Update::Text { choice, chunk } => extend(&mut chunks[choice], chunk),
            Update::Finished { choice, chunk, finish } => {
                extend(&mut chunks[choice], chunk);
                let chunk = std::mem::take(&mut chunks[choice]);
                choices[choice] = Some(shape.whole(choice, &chunk, &finish, generation.text()));
            }
            Update::Failed(failure) => return failure.into_response(),
        }
    }
    match choices.into_iter().collect::<Option<Vec<String>>>() {
        Some(choices) => {
            let body = shape.envelope(false, &choices, Some(usage(generation.usage())));
            ([(CONTENT_TYPE, "application/json")], body).into_response()
        }
        None => Failure::failed("the engine ended the request without a reason").into_response(),
    }
}

fn extend(chunk: &mut Chunk, more: Chunk) {
    chunk.text += &more.text;
    chunk.tokens.extend(more.tokens);
}

/// What a stream holds between two events.
struct State {
    generation: Generation,
    shape: Box<dyn Shape>,
    include_usage: bool,
    ended: bool,
}

/// Sends events as they come. If the client goes away, the server drops the stream, which cancels the requests.
fn stream(generation: Generation, shape: Box<dyn Shape>, include_usage: bool) -> Response {
    let state = State { generation, shape, include_usage, ended: false };
    let opening = state.open(0..state.generation.count());
    let parts = unfold(state, |mut state| async move {
        let data = if state.ended { None } else { Some(state.next().await) };
        data.map(|data| (iter(data), state))
    });
    let events = iter(opening).chain(parts.flatten()).map(|data| Ok::<_, Infallible>(Event::default().data(data)));
    let alive = KeepAlive::new().interval(Duration::from_secs(15));
    ([("x-accel-buffering", "no")], Sse::new(events).keep_alive(alive)).into_response()
}

impl State {
    /// What opens choices that have not begun.
    fn open(&self, choices: Range<usize>) -> Vec<String> {
        choices.filter_map(|choice| self.shape.opening(choice)).map(|opening| self.wrapped(opening)).collect()
    }

    /// The data of the next events.
    async fn next(&mut self) -> Vec<String> {
        let update = self.generation.next().await;
        let text = self.generation.text();
        match update {
            Some(Update::Prompt { prompt, scored }) => {
                self.shape.prompt(prompt, &scored, text);
                let waiting = self.shape.waiting();
                self.open(prompt * waiting..(prompt + 1) * waiting)
            }
            Some(Update::Text { choice, chunk }) => vec![self.wrapped(self.shape.part(choice, &chunk, None, text))],
            Some(Update::Finished { choice, chunk, finish }) => {
                let has_more = !chunk.text.is_empty() || !chunk.tokens.is_empty();
                let rest = has_more.then(|| self.shape.part(choice, &chunk, None, text));
                let end = self.shape.part(choice, &Chunk::default(), Some(&finish), text);
                rest.into_iter().chain([end]).map(|part| self.wrapped(part)).collect()
            }
            Some(Update::Failed(failure)) => {
                self.ended = true;
                vec![failure.body().to_string(), DONE.to_owned()]
            }
            None => {
                self.ended = true;
                let usage = self.include_usage.then(|| usage(self.generation.usage()));
                let usage = usage.map(|usage| self.shape.envelope(true, &[], Some(usage)));
                usage.into_iter().chain([DONE.to_owned()]).collect()
            }
        }
    }

    fn wrapped(&self, choice: String) -> String {
        self.shape.envelope(true, &[choice], self.include_usage.then_some(Value::Null))
    }
}

fn usage(usage: Usage) -> Value {
    serde_json::json!({
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.generated,
        "total_tokens": usage.prompt + usage.generated,
        "prompt_tokens_details": { "cached_tokens": usage.cached },
    })
}
