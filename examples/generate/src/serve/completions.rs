//! `POST /v1/completions`.

use std::{iter::once, sync::Arc};

use axum::{extract::State, http::StatusCode, response::Response};
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::{
    answer::{Shape, answer},
    app::App,
    body::Body,
    choice::Chunk,
    failure::Failure,
    fields::fields,
    generation::{Finish, Generation},
    items::Prompt,
    logprob::{distinct, finite, json_of},
    stamp::Stamp,
    text::Text,
};
use crate::sampling::Sampled;

fields! {
    /// What a completion has besides the parameters of all requests.
    pub(crate) struct Completion {
        prompt: Prompt,
        max_tokens: usize,
        echo: bool,
        logprobs: usize,
    }
}

/// Tokens of a completion where none are asked for, as OpenAI has it.
const DEFAULT_TOKENS: usize = 16;

pub(crate) async fn completions(
    State(app): State<Arc<App>>,
    Body { parameters, own: body, held }: Body<Completion>,
) -> Result<Response, Failure> {
    let stamp = Stamp::new("cmpl", &app, parameters.model.as_deref())?;
    let delivery = parameters.delivery()?;
    let stops = parameters.stops()?;
    let prompt = body.prompt.ok_or_else(|| Failure::new(StatusCode::BAD_REQUEST, "missing field `prompt`"))?;
    let max_tokens = body.max_tokens.unwrap_or(DEFAULT_TOKENS);
    let (choices, logprobs) = (parameters.choices(), body.logprobs.is_some());
    let (echo, top) = (body.echo.unwrap_or(false), body.logprobs.unwrap_or(0));
    let (requests, echoes) = app
        .aside(move |app| {
            let prompts = encode(prompt, app)?;
            let echoes =
                prompts.iter().map(|tokens| if echo { Echo::new(tokens, &*app.text) } else { Echo::default() });
            let echoes: Vec<Echo> = echoes.collect();
            let mut requests = parameters.requests(prompts, max_tokens, top, app.engine.model_limits().vocab)?;
            requests.iter_mut().for_each(|request| request.score_prompt = echo && logprobs);
            Ok((requests, echoes))
        })
        .await?;
    let scores = echo && logprobs;
    let echoed = echoes.iter().map(|echo| echo.text.len()).sum();
    let firsts: Vec<u32> = requests.iter().filter_map(|request| request.prompt.first().copied()).collect();
    let alone: Vec<bool> = requests.iter().map(|request| request.prompt.len() < 2).collect();
    let generation = Generation::begin(&app, requests, &stops, (delivery, logprobs, echoed), held)?;
    let mut shape = Completions { stamp, logprobs, scores, echoes, firsts, choices };
    // nothing comes for a prompt of one token
    for (prompt, _) in alone.iter().enumerate().filter(|(_, alone)| **alone && scores) {
        shape.prompt(prompt, &[], &*app.text);
    }
    Ok(answer(generation, Box::new(shape), delivery).await)
}

fn encode(prompt: Prompt, app: &App) -> Result<Vec<Vec<u32>>, Failure> {
    match prompt {
        Prompt::Tokens(tokens) => Ok(tokens),
        Prompt::Texts(texts) => {
            let tokens = texts.iter().map(|text| app.text.encode(text, app.prompt_tokens()));
            Ok(tokens.collect::<Result<_, _>>()?)
        }
    }
}

/// What an answer repeats of a prompt.
#[derive(Clone, Debug, Default)]
struct Echo {
    text: String,
    /// The log-probabilities of its tokens, once they have come.
    logprobs: Option<Logprobs>,
}

impl Echo {
    fn new(tokens: &[u32], text: &dyn Text) -> Self {
        let bytes: Vec<u8> = tokens.iter().flat_map(|&token| text.bytes(token)).collect();
        Echo { text: String::from_utf8_lossy(&bytes).into_owned(), logprobs: None }
    }
}

/// Answers of this endpoint.
struct Completions {
    stamp: Stamp,
    logprobs: bool,
    /// Whether the log-probabilities of prompts are shown.
    scores: bool,
    /// The text before each prompt's choices.
    echoes: Vec<Echo>,
    /// The first token of each prompt.
    firsts: Vec<u32>,
    /// Choices of each prompt.
    choices: usize,
}

/// Log-probabilities in OpenAI's older form: arrays beside each other.
#[derive(Clone, Debug, Default, Serialize)]
struct Logprobs {
    tokens: Vec<String>,
    /// `null` for the first token of a prompt, which nothing is before.
    token_logprobs: Vec<Option<f32>>,
    top_logprobs: Vec<Option<Top>>,
    /// Characters before each token.
    text_offset: Vec<usize>,
}

/// An object of names and log-probabilities.
#[derive(Clone, Debug)]
struct Top(Vec<(String, f32)>);

impl Serialize for Top {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, logprob)| (name, logprob)))
    }
}

impl Logprobs {
    fn push(&mut self, sampled: &Sampled, offset: usize, text: &dyn Text) {
        self.tokens.push(text.name(sampled.token));
        self.token_logprobs.push(Some(finite(sampled.logprob)));
        self.top_logprobs.push(Some(Top(distinct(&sampled.top, text))));
        self.text_offset.push(offset);
    }
}

#[derive(Serialize)]
struct Choice<'a> {
    index: usize,
    text: &'a str,
    logprobs: Option<Logprobs>,
    finish_reason: Option<&'a str>,
    stop_reason: Option<&'a str>,
}

impl Completions {
    /// The log-probabilities of a part, which follows the text of the prompt.
    fn logprobs(&self, choice: usize, chunk: &Chunk, text: &dyn Text) -> Option<Logprobs> {
        if !self.logprobs || chunk.tokens.is_empty() {
            return None;
        }
        let before = self.echoes[choice / self.choices].text.chars().count();
        let mut logprobs = Logprobs::default();
        for (sampled, offset) in &chunk.tokens {
            logprobs.push(sampled, before + offset, text);
        }
        Some(logprobs)
    }
}

impl Shape for Completions {
    fn opening(&self, choice: usize) -> Option<String> {
        let Echo { text, logprobs } = &self.echoes[choice / self.choices];
        let is_there = !text.is_empty() && (!self.scores || logprobs.is_some());
        is_there.then(|| {
            let logprobs = logprobs.clone();
            json_of(&Choice { index: choice, text, logprobs, finish_reason: None, stop_reason: None })
        })
    }

    fn prompt(&mut self, prompt: usize, scored: &[Sampled], text: &dyn Text) {
        let first = Sampled { token: self.firsts[prompt], logprob: 0.0, top: Vec::new() };
        let (mut logprobs, mut characters) = (Logprobs::default(), Characters::default());
        for sampled in once(&first).chain(scored) {
            logprobs.push(sampled, characters.count, text);
            characters.push(&text.bytes(sampled.token));
        }
        (logprobs.token_logprobs[0], logprobs.top_logprobs[0]) = (None, None);
        self.echoes[prompt].logprobs = Some(logprobs);
    }

    fn waiting(&self) -> usize {
        if self.scores { self.choices } else { 0 }
    }

    fn part(&self, choice: usize, chunk: &Chunk, finish: Option<&Finish>, text: &dyn Text) -> String {
        json_of(&Choice {
            index: choice,
            text: &chunk.text,
            logprobs: self.logprobs(choice, chunk, text),
            finish_reason: finish.map(|finish| finish.reason),
            stop_reason: finish.and_then(|finish| finish.stop.as_deref()),
        })
    }

    fn whole(&self, choice: usize, chunk: &Chunk, finish: &Finish, text: &dyn Text) -> String {
        let echo = &self.echoes[choice / self.choices];
        let mut logprobs = echo.logprobs.clone();
        if let Some(more) = self.logprobs(choice, chunk, text) {
            let all = logprobs.get_or_insert_default();
            all.tokens.extend(more.tokens);
            all.token_logprobs.extend(more.token_logprobs);
            all.top_logprobs.extend(more.top_logprobs);
            all.text_offset.extend(more.text_offset);
        }
        json_of(&Choice {
            index: choice,
            text: &format!("{}{}", echo.text, chunk.text),
            logprobs,
            finish_reason: Some(finish.reason),
            stop_reason: finish.stop.as_deref(),
        })
    }

    fn envelope(&self, _stream: bool, choices: &[String], usage: Option<Value>) -> String {
        self.stamp.envelope("text_completion", choices, usage)
    }
}

/// Characters of bytes that come in parts.
#[derive(Default)]
struct Characters {
    count: usize,
    utf8: crate::tokenizer::Utf8Stream,
}

impl Characters {
    fn push(&mut self, bytes: &[u8]) {
        self.count += self.utf8.push(bytes).chars().count();
    }
}
