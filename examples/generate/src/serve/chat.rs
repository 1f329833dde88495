//! `POST /v1/chat/completions`.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    answer::{Shape, answer},
    app::App,
    body::Body,
    choice::Chunk,
    failure::Failure,
    generation::{Finish, Generation},
    logprob::finite,
    stamp::Stamp,
    text::Text,
};
use crate::{sampling::Sampled, tokenizer::ChatMessage};

/// What a chat has besides the parameters of all requests.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Chat {
    messages: Vec<RawMessage>,
    #[serde(default)]
    max_tokens: Option<usize>,
    #[serde(default)]
    max_completion_tokens: Option<usize>,
    #[serde(default)]
    logprobs: bool,
    #[serde(default)]
    top_logprobs: Option<usize>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawMessage {
    role: Role,
    content: Content,
}

/// Who speaks. `developer` is OpenAI's newer name for the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Role {
    #[serde(alias = "developer")]
    System,
    User,
    Assistant,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "content is a string or an array of text parts; images, audio and tools have no model here"
)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
enum Part {
    Text { text: String },
}

impl From<RawMessage> for ChatMessage {
    fn from(message: RawMessage) -> Self {
        let content = match message.content {
            Content::Text(text) => text,
            Content::Parts(parts) => parts.into_iter().map(|Part::Text { text }| text).collect(),
        };
        let role = match message.role {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
        };
        ChatMessage { role: role.into(), content }
    }
}

pub(crate) async fn chat(State(app): State<Arc<App>>, Body(parameters, body): Body<Chat>) -> Result<Response, Failure> {
    let stamp = Stamp::new("chatcmpl", &app, parameters.model.as_deref())?;
    let delivery = parameters.delivery()?;
    let stops = parameters.stops()?;
    if body.top_logprobs.is_some() && !body.logprobs {
        return Err(Failure::parameter("top_logprobs", "top_logprobs are for `\"logprobs\": true` alone"));
    }
    if body.messages.is_empty() {
        return Err(Failure::parameter("messages", "there is no message to answer"));
    }
    let max_tokens = match (body.max_tokens, body.max_completion_tokens) {
        (Some(old), Some(new)) if old != new => {
            let message = format!("max_tokens is {old} and max_completion_tokens is {new}; give one of them");
            return Err(Failure::parameter("max_tokens", message));
        }
        (old, new) => new.or(old),
    };
    let (logprobs, top) = (body.logprobs, body.top_logprobs.unwrap_or(0));
    let messages: Vec<ChatMessage> = body.messages.into_iter().map(ChatMessage::from).collect();
    let request = app
        .aside(move |app| {
            let tokens = app.text.encode_chat(&messages)?;
            let max_tokens = max_tokens.unwrap_or_else(|| app.tokens_left(tokens.len()));
            parameters.request(tokens, max_tokens, top, app.engine.model_limits().vocab)
        })
        .await?;
    let generation = Generation::begin(&app, vec![request], &stops)?;
    Ok(answer(generation, Arc::new(Chats { stamp, logprobs }), delivery).await)
}

/// Answers of this endpoint.
struct Chats {
    stamp: Stamp,
    logprobs: bool,
}

impl Chats {
    fn logprobs(&self, chunk: &Chunk, text: &dyn Text) -> Option<Value> {
        let one = |token: u32, logprob: f32| {
            let (name, bytes) = (text.name(token), text.bytes(token));
            json!({ "token": name, "logprob": finite(logprob), "bytes": bytes })
        };
        let each = |(sampled, _): &(Sampled, usize)| {
            let mut entry = one(sampled.token, sampled.logprob);
            let top = sampled.top.iter().map(|&(token, logprob)| one(token, logprob));
            entry["top_logprobs"] = top.collect();
            entry
        };
        let some = self.logprobs && !chunk.tokens.is_empty();
        some.then(|| json!({ "content": chunk.tokens.iter().map(each).collect::<Vec<_>>() }))
    }
}

impl Shape for Chats {
    fn opening(&self, choice: usize) -> Option<Value> {
        let delta = json!({ "role": "assistant", "content": "" });
        Some(json!({ "index": choice, "delta": delta, "logprobs": null, "finish_reason": null }))
    }

    fn part(&self, choice: usize, chunk: &Chunk, finish: Option<&Finish>, text: &dyn Text) -> Value {
        let delta = if finish.is_some() { json!({}) } else { json!({ "content": chunk.text }) };
        let mut part = json!({
            "index": choice,
            "delta": delta,
            "logprobs": self.logprobs(chunk, text),
            "finish_reason": finish.map(|finish| finish.reason),
        });
        if let Some(finish) = finish {
            part["stop_reason"] = json!(finish.stop);
        }
        part
    }

    fn whole(&self, choice: usize, chunk: &Chunk, finish: &Finish, text: &dyn Text) -> Value {
        json!({
            "index": choice,
            "message": { "role": "assistant", "content": chunk.text, "refusal": null },
            "logprobs": self.logprobs(chunk, text),
            "finish_reason": finish.reason,
            "stop_reason": finish.stop,
        })
    }

    fn envelope(&self, stream: bool, choices: Vec<Value>, usage: Option<Value>) -> Value {
        let object = if stream { "chat.completion.chunk" } else { "chat.completion" };
        self.stamp.envelope(object, &choices, usage)
    }
}
