//! `POST /v1/completions`.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    answer::{Shape, answer},
    app::App,
    body::Body,
    choice::Chunk,
    failure::Failure,
    generation::{Finish, Generation},
    logprob::finite,
    parameters::OneOrMany,
    stamp::Stamp,
    text::Text,
};

/// What a completion has besides the parameters of all requests.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Completion {
    prompt: Prompt,
    #[serde(default)]
    max_tokens: Option<usize>,
    #[serde(default)]
    echo: bool,
    #[serde(default)]
    logprobs: Option<usize>,
}

/// Text or tokens, once or several times.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "a prompt is a string, an array of strings, of tokens, or of arrays of tokens")]
enum Prompt {
    Text(OneOrMany<String>),
    Tokens(OneOrMany<Vec<u32>>),
}

/// Tokens of a completion where none are asked for, as OpenAI has it.
const DEFAULT_TOKENS: usize = 16;

/// Prompts of one request, at most.
const MAX_PROMPTS: usize = 128;

pub(crate) async fn completions(
    State(app): State<Arc<App>>,
    Body(parameters, body): Body<Completion>,
) -> Result<Response, Failure> {
    let stamp = Stamp::new("cmpl", &app, parameters.model.as_deref())?;
    let delivery = parameters.delivery()?;
    let stops = parameters.stops()?;
    if body.echo && body.logprobs.is_some() {
        return Err(Failure::parameter("echo", "echo with logprobs is not supported; ask for one of them"));
    }
    let max_tokens = body.max_tokens.unwrap_or(DEFAULT_TOKENS);
    let choices = parameters.choices();
    let top = body.logprobs.unwrap_or(0);
    let (requests, echoes) = app
        .aside(move |app| {
            let prompts = encode(body.prompt, &*app.text)?;
            let texts = prompts.iter().map(|tokens| if body.echo { decode(tokens, &*app.text) } else { String::new() });
            let echoes: Vec<String> = texts.collect();
            let requests: Result<Vec<_>, Failure> = prompts
                .into_iter()
                .map(|tokens| parameters.request(tokens, max_tokens, top, app.engine.model_limits().vocab))
                .collect();
            Ok((requests?, echoes))
        })
        .await?;
    let generation = Generation::begin(&app, requests, &stops)?;
    let shape = Completions { stamp, logprobs: body.logprobs.is_some(), echoes, choices };
    Ok(answer(generation, Arc::new(shape), delivery).await)
}

fn encode(prompt: Prompt, text: &dyn Text) -> Result<Vec<Vec<u32>>, Failure> {
    let prompts = match prompt {
        Prompt::Tokens(tokens) => tokens.into_vec(),
        Prompt::Text(texts) => {
            let tokens: Result<_, _> = texts.into_vec().iter().map(|prompt| text.encode(prompt)).collect();
            tokens?
        }
    };
    match prompts.len() {
        1..=MAX_PROMPTS => Ok(prompts),
        count => Err(Failure::parameter("prompt", format!("{count} prompts; a request has 1 to {MAX_PROMPTS}"))),
    }
}

fn decode(tokens: &[u32], text: &dyn Text) -> String {
    let bytes: Vec<u8> = tokens.iter().flat_map(|&token| text.bytes(token)).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Answers of this endpoint.
struct Completions {
    stamp: Stamp,
    logprobs: bool,
    /// The text before each prompt's choices.
    echoes: Vec<String>,
    /// Choices of each prompt.
    choices: usize,
}

impl Completions {
    fn choice(&self, choice: usize, chunk: &Chunk, finish: Option<&Finish>, text: &dyn Text) -> Value {
        let logprobs = self.logprobs && !chunk.tokens.is_empty();
        json!({
            "index": choice,
            "text": chunk.text,
            "logprobs": logprobs.then(|| self.logprobs(chunk, text)),
            "finish_reason": finish.map(|finish| finish.reason),
            "stop_reason": finish.and_then(|finish| finish.stop.as_deref()),
        })
    }

    fn logprobs(&self, chunk: &Chunk, text: &dyn Text) -> Value {
        let name = |token: u32| text.name(token);
        let each = chunk.tokens.iter();
        let top = each.clone().map(|(sampled, _)| {
            let top = sampled.top.iter().map(|&(token, logprob)| (name(token), finite(logprob)));
            Value::Object(top.collect::<Map<String, Value>>())
        });
        json!({
            "tokens": each.clone().map(|(sampled, _)| name(sampled.token)).collect::<Vec<_>>(),
            "token_logprobs": each.clone().map(|(sampled, _)| finite(sampled.logprob)).collect::<Vec<_>>(),
            "top_logprobs": top.collect::<Vec<_>>(),
            "text_offset": each.map(|(_, start)| *start).collect::<Vec<_>>(),
        })
    }
}

impl Shape for Completions {
    fn opening(&self, choice: usize) -> Option<Value> {
        let echo = &self.echoes[choice / self.choices];
        (!echo.is_empty()).then(
            || json!({ "index": choice, "text": echo, "logprobs": null, "finish_reason": null, "stop_reason": null }),
        )
    }

    fn part(&self, choice: usize, chunk: &Chunk, finish: Option<&Finish>, text: &dyn Text) -> Value {
        self.choice(choice, chunk, finish, text)
    }

    fn whole(&self, choice: usize, chunk: &Chunk, finish: &Finish, text: &dyn Text) -> Value {
        let mut whole = self.choice(choice, chunk, Some(finish), text);
        let echo = &self.echoes[choice / self.choices];
        whole["text"] = json!(format!("{echo}{}", chunk.text));
        whole
    }

    fn envelope(&self, _stream: bool, choices: Vec<Value>, usage: Option<Value>) -> Value {
        self.stamp.envelope("text_completion", &choices, usage)
    }
}
