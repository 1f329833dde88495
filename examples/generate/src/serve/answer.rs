//! How a generation becomes an answer: whole, or as server-sent events.

use std::{collections::VecDeque, convert::Infallible, sync::Arc, time::Duration};

use axum::{
    Json,
    response::{
        IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use futures_util::stream::unfold;
use serde_json::Value;

use super::{
    choice::Chunk,
    failure::Failure,
    generation::{Finish, Generation, Update, Usage},
    text::Text,
};

/// The words of one endpoint.
pub(crate) trait Shape: Send + Sync + 'static {
    /// What a stream sends before the text of a choice.
    fn opening(&self, choice: usize) -> Option<Value>;

    /// A part of a choice, in a stream.
    fn part(&self, choice: usize, chunk: &Chunk, finish: Option<&Finish>, text: &dyn Text) -> Value;

    /// A whole choice.
    fn whole(&self, choice: usize, chunk: &Chunk, finish: &Finish, text: &dyn Text) -> Value;

    /// The object around choices; `usage` is left out, `null` or an object.
    fn envelope(&self, stream: bool, choices: Vec<Value>, usage: Option<Value>) -> Value;
}

/// How an answer is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    Whole,
    Stream { include_usage: bool },
}

/// Answers with all of a generation.
pub(crate) async fn answer(generation: Generation, shape: Arc<dyn Shape>, delivery: Delivery) -> Response {
    match delivery {
        Delivery::Whole => whole(generation, &*shape).await,
        Delivery::Stream { include_usage } => stream(generation, shape, include_usage),
    }
}

/// Waits for all choices. If the client goes away, the server drops this future, which cancels the requests.
async fn whole(mut generation: Generation, shape: &dyn Shape) -> Response {
    let mut chunks: Vec<Chunk> = vec![Chunk::default(); generation.count()];
    let mut choices: Vec<Option<Value>> = vec![None; generation.count()];
    while let Some(update) = generation.next().await {
        match update {
            Update::Text { choice, chunk } => extend(&mut chunks[choice], chunk),
            Update::Finished { choice, chunk, finish } => {
                extend(&mut chunks[choice], chunk);
                choices[choice] = Some(shape.whole(choice, &chunks[choice], &finish, generation.text()));
            }
            Update::Failed(failure) => return failure.into_response(),
        }
    }
    match choices.into_iter().collect::<Option<Vec<Value>>>() {
        Some(choices) => Json(shape.envelope(false, choices, Some(usage(generation.usage())))).into_response(),
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
    shape: Arc<dyn Shape>,
    include_usage: bool,
    queue: VecDeque<String>,
    ended: bool,
}

/// Sends events as they come. If the client goes away, the server drops the stream, which cancels the requests.
fn stream(generation: Generation, shape: Arc<dyn Shape>, include_usage: bool) -> Response {
    let mut state = State { generation, shape, include_usage, queue: VecDeque::new(), ended: false };
    for choice in 0..state.generation.count() {
        if let Some(opening) = state.shape.opening(choice) {
            state.send(opening);
        }
    }
    let events = unfold(state, |mut state| async move {
        let data = state.next().await?;
        Some((Ok::<_, Infallible>(Event::default().data(data)), state))
    });
    let alive = KeepAlive::new().interval(Duration::from_secs(15));
    ([("x-accel-buffering", "no")], Sse::new(events).keep_alive(alive)).into_response()
}

impl State {
    async fn next(&mut self) -> Option<String> {
        loop {
            if let Some(data) = self.queue.pop_front() {
                return Some(data);
            }
            if self.ended {
                return None;
            }
            self.advance().await;
        }
    }

    async fn advance(&mut self) {
        match self.generation.next().await {
            Some(Update::Text { choice, chunk }) => {
                let part = self.shape.part(choice, &chunk, None, self.generation.text());
                self.send(part);
            }
            Some(Update::Finished { choice, chunk, finish }) => {
                if !chunk.text.is_empty() || !chunk.tokens.is_empty() {
                    let part = self.shape.part(choice, &chunk, None, self.generation.text());
                    self.send(part);
                }
                let part = self.shape.part(choice, &Chunk::default(), Some(&finish), self.generation.text());
                self.send(part);
            }
            Some(Update::Failed(failure)) => {
                self.queue.push_back(failure.body().to_string());
                self.end();
            }
            None => {
                if self.include_usage {
                    let usage = usage(self.generation.usage());
                    self.queue.push_back(self.shape.envelope(true, Vec::new(), Some(usage)).to_string());
                }
                self.end();
            }
        }
    }

    fn send(&mut self, choice: Value) {
        let usage = self.include_usage.then_some(Value::Null);
        self.queue.push_back(self.shape.envelope(true, vec![choice], usage).to_string());
    }

    fn end(&mut self) {
        self.queue.push_back("[DONE]".into());
        self.ended = true;
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
