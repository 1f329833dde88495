//! `POST /v1/chat/completions`.

use std::sync::Arc;

use axum::{extract::State, http::StatusCode, response::Response};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{Error, IgnoredAny},
};
use serde_json::{Value, json, value::RawValue};

use super::{
    answer::{Shape, answer},
    app::App,
    body::Body,
    choice::Chunk,
    failure::Failure,
    fields::{Nothing, fields},
    generation::{Finish, Generation},
    logprob::{bytes, finite, json_of},
    stamp::Stamp,
    text::Text,
};
use crate::{sampling::Sampled, tokenizer::ChatMessage};

fields! {
    /// What a chat has besides the parameters of all requests.
    pub(crate) struct Chat {
        messages: Vec<RawMessage>,
        max_tokens: usize,
        max_completion_tokens: usize,
        logprobs: bool,
        top_logprobs: usize,
    }
}

/// A message, with what clients send back of an answer.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawMessage {
    role: Role,
    #[serde(default)]
    content: Option<Content>,
    // these change no text
    #[serde(default, rename = "name")]
    _name: Option<IgnoredAny>,
    #[serde(default, rename = "annotations")]
    _annotations: Option<IgnoredAny>,
    // these are for models with tools, sound and refusals
    #[serde(default, rename = "refusal")]
    _refusal: Option<Nothing>,
    #[serde(default, rename = "tool_calls")]
    _tool_calls: Option<Nothing>,
    #[serde(default, rename = "function_call")]
    _function_call: Option<Nothing>,
    #[serde(default, rename = "tool_call_id")]
    _tool_call_id: Option<Nothing>,
    #[serde(default, rename = "audio")]
    _audio: Option<Nothing>,
    #[serde(default, rename = "reasoning_content")]
    _reasoning_content: Option<Nothing>,
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

/// The text of a message, from one part or several.
#[derive(Clone, Debug)]
struct Content(String);

const CONTENT: &str = "content is a string or an array of text parts; images, audio and tools have no model here";

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <&RawValue>::deserialize(deserializer)?.get();
        let of_part = |part: Part| part.text.filter(|_| part.kind == "text");
        let of_parts = |parts: Vec<Part>| parts.into_iter().map(of_part).collect::<Option<String>>();
        let content = match text.as_bytes()[0] {
            b'"' => serde_json::from_str(text).ok(),
            _ => serde_json::from_str(text).ok().and_then(of_parts),
        };
        content.map(Content).ok_or_else(|| D::Error::custom(CONTENT))
    }
}

/// A part of a message. What parts of other kinds have is not read.
#[derive(Clone, Debug, Deserialize)]
struct Part {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    text: Option<String>,
}

/// The messages as templates have them. A message of the assistant may have no text.
fn messages(raw: Vec<RawMessage>) -> Result<Vec<ChatMessage>, Failure> {
    let message = |(index, RawMessage { role, content, .. }): (usize, RawMessage)| {
        let name = match role {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
        };
        let content = match content {
            Some(Content(content)) => content,
            None if role == Role::Assistant => String::new(),
            None => {
                let path = format!("messages[{index}]");
                return Err(Failure::parameter(&path, format!("`{path}`: missing field `content`")));
            }
        };
        Ok(ChatMessage { role: name.into(), content })
    };
    raw.into_iter().enumerate().map(message).collect()
}

pub(crate) async fn chat(
    State(app): State<Arc<App>>,
    Body { parameters, own: body, held }: Body<Chat>,
) -> Result<Response, Failure> {
    let stamp = Stamp::new("chatcmpl", &app, parameters.model.as_deref())?;
    let delivery = parameters.delivery()?;
    let stops = parameters.stops()?;
    let logprobs = body.logprobs.unwrap_or(false);
    if body.top_logprobs.is_some() && !logprobs {
        return Err(Failure::parameter("top_logprobs", "top_logprobs are for `\"logprobs\": true` alone"));
    }
    let raw = body.messages.ok_or_else(|| Failure::new(StatusCode::BAD_REQUEST, "missing field `messages`"))?;
    let most = app.engine.model_limits().context;
    if raw.is_empty() || raw.len() > most {
        let message = if raw.is_empty() {
            "there is no message to answer".into()
        } else {
            format!("there are {} messages, and the context of the model has {most} tokens", raw.len())
        };
        return Err(Failure::parameter("messages", message));
    }
    let (name, max_tokens) = match (body.max_tokens, body.max_completion_tokens) {
        (Some(old), Some(new)) if old != new => {
            let message = format!("max_tokens is {old} and max_completion_tokens is {new}; give one of them");
            return Err(Failure::parameter("max_tokens", message));
        }
        (_, Some(new)) => ("max_completion_tokens", Some(new)),
        (old, None) => ("max_tokens", old),
    };
    let top = body.top_logprobs.unwrap_or(0);
    let messages = messages(raw)?;
    let requests = app
        .aside(move |app| {
            let tokens = app.text.encode_chat(&messages, app.prompt_tokens()).map_err(about_messages)?;
            let max_tokens = max_tokens.unwrap_or_else(|| app.tokens_left(tokens.len()));
            parameters.requests(vec![tokens], max_tokens, top, app.engine.model_limits().vocab)
        })
        .await?;
    let generation = Generation::begin(&app, requests, &stops, (delivery, logprobs, 0), held).map_err(|failure| {
        let param = match failure.param.as_deref() {
            Some("max_tokens") => Some(name.to_owned()),
            Some("logprobs") => Some("top_logprobs".to_owned()),
            Some("prompt") => Some("messages".to_owned()),
            _ => failure.param.clone(),
        };
        Failure { param, ..failure }
    })?;
    Ok(answer(generation, Box::new(Chats { stamp, logprobs }), delivery).await)
}

/// A failure of a prompt that is a conversation.
fn about_messages(error: crate::Error) -> Failure {
    Failure { param: Some("messages".to_owned()), ..Failure::from(error) }
}

/// Answers of this endpoint.
struct Chats {
    stamp: Stamp,
    logprobs: bool,
}

/// A token with its log-probability.
#[derive(Serialize)]
struct Entry {
    token: String,
    logprob: f32,
    /// `null` for control tokens, which have no text.
    bytes: Option<Vec<u8>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_logprobs: Option<Vec<Entry>>,
}

#[derive(Serialize)]
struct Logprobs {
    content: Vec<Entry>,
}

impl Chats {
    fn logprobs(&self, chunk: &Chunk, text: &dyn Text) -> Option<Logprobs> {
        let one = |token: u32, logprob: f32| {
            let (token, bytes) = (text.name(token), bytes(text, token));
            Entry { token, logprob: finite(logprob), bytes, top_logprobs: None }
        };
        let each = |(sampled, _): &(Sampled, usize)| {
            let top = sampled.top.iter().map(|&(token, logprob)| one(token, logprob)).collect();
            Entry { top_logprobs: Some(top), ..one(sampled.token, sampled.logprob) }
        };
        let some = self.logprobs && !chunk.tokens.is_empty();
        some.then(|| Logprobs { content: chunk.tokens.iter().map(each).collect() })
    }
}

#[derive(Serialize)]
struct Delta<'a> {
    index: usize,
    delta: Value,
    logprobs: Option<Logprobs>,
    finish_reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stop_reason: Option<Option<&'a str>>,
}

#[derive(Serialize)]
struct Whole<'a> {
    index: usize,
    message: Message<'a>,
    logprobs: Option<Logprobs>,
    finish_reason: &'a str,
    stop_reason: Option<&'a str>,
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'a str,
    content: &'a str,
    refusal: Option<&'a str>,
}

impl Shape for Chats {
    fn opening(&self, choice: usize) -> Option<String> {
        let delta = json!({ "role": "assistant", "content": "" });
        Some(json!({ "index": choice, "delta": delta, "logprobs": null, "finish_reason": null }).to_string())
    }

    fn prompt(&mut self, _: usize, _: &[Sampled], _: &dyn Text) {}

    fn waiting(&self) -> usize {
        0
    }

    fn part(&self, choice: usize, chunk: &Chunk, finish: Option<&Finish>, text: &dyn Text) -> String {
        json_of(&Delta {
            index: choice,
            delta: if finish.is_some() { json!({}) } else { json!({ "content": chunk.text }) },
            logprobs: self.logprobs(chunk, text),
            finish_reason: finish.map(|finish| finish.reason),
            stop_reason: finish.map(|finish| finish.stop.as_deref()),
        })
    }

    fn whole(&self, choice: usize, chunk: &Chunk, finish: &Finish, text: &dyn Text) -> String {
        json_of(&Whole {
            index: choice,
            message: Message { role: "assistant", content: &chunk.text, refusal: None },
            logprobs: self.logprobs(chunk, text),
            finish_reason: finish.reason,
            stop_reason: finish.stop.as_deref(),
        })
    }

    fn envelope(&self, stream: bool, choices: &[String], usage: Option<Value>) -> String {
        let object = if stream { "chat.completion.chunk" } else { "chat.completion" };
        self.stamp.envelope(object, choices, usage)
    }
}
