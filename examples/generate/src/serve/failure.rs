//! What a client is told when a request is not served, in the form of OpenAI's errors.

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header::RETRY_AFTER},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

use crate::{Error, engine::Refused};

/// Characters of a message, at most.
const MAX_MESSAGE: usize = 1000;

/// An answer with a status of 400 or more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) status: StatusCode,
    pub(crate) message: String,
    /// The parameter that is wrong.
    pub(crate) param: Option<String>,
    /// A word for programs.
    pub(crate) code: Option<&'static str>,
    /// Seconds after which the client may try again, for 429 and 503.
    pub(crate) retry_after: u64,
}

impl Failure {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        let mut message = message.into();
        // a client may have sent what it says
        if let Some((end, _)) = message.char_indices().nth(MAX_MESSAGE) {
            message.truncate(end);
            message.push('…');
        }
        Failure { status, message, param: None, code: None, retry_after: 1 }
    }

    /// A parameter that is wrong.
    pub(crate) fn parameter(param: &str, message: impl Into<String>) -> Self {
        Failure { param: Some(param.to_owned()), ..Failure::new(StatusCode::BAD_REQUEST, message) }
    }

    pub(crate) fn code(self, code: &'static str) -> Self {
        Failure { code: Some(code), ..self }
    }

    /// A request that began, and failed.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Failure::new(StatusCode::INTERNAL_SERVER_ERROR, message)
    }

    /// The body, also sent within a stream that has begun.
    pub(crate) fn body(&self) -> Value {
        let kind = match self.status {
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
            StatusCode::UNAUTHORIZED => "authentication_error",
            status if status.is_server_error() => "server_error",
            _ => "invalid_request_error",
        };
        json!({ "error": { "message": self.message, "type": kind, "param": self.param, "code": self.code } })
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.body())).into_response();
        if matches!(self.status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(self.retry_after));
        }
        response
    }
}

/// The parameter that the engine names in words.
fn parameter_of(words: &str) -> Option<&'static str> {
    match words {
        "the number of choices" => Some("n"),
        "the number of tokens to generate" => Some("max_tokens"),
        "the number of log-probabilities" => Some("logprobs"),
        "the prompt" => Some("prompt"),
        "the list of stop tokens" => Some("stop_token_ids"),
        _ => None,
    }
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Self {
        let message = refused.to_string();
        match refused {
            Refused::Busy { .. } => Failure::new(StatusCode::TOO_MANY_REQUESTS, message).code("busy"),
            Refused::ShuttingDown => Failure::new(StatusCode::SERVICE_UNAVAILABLE, message).code("shutting_down"),
            Refused::Stopped { .. } => Failure::new(StatusCode::SERVICE_UNAVAILABLE, message).code("engine_stopped"),
            Refused::PromptTooLong { .. } => Failure::parameter("prompt", message).code("context_length_exceeded"),
            Refused::Endless { .. } => Failure::parameter("endless", message),
            Refused::EmptyPrompt => Failure::parameter("prompt", message),
            Refused::OutOfRange { name, .. } => Failure::parameter(name, message),
            Refused::Count { name: what, .. } | Refused::TokenOutsideVocabulary { what, .. } => {
                let param = parameter_of(what).map(str::to_owned);
                Failure { param, ..Failure::new(StatusCode::BAD_REQUEST, message) }
            }
            _ => Failure::new(StatusCode::BAD_REQUEST, message),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Refused(refused) => refused.into(),
            Error::LongWord { .. } => Failure::parameter("prompt", error.to_string()),
            Error::TooLong { .. } => Failure::parameter("prompt", error.to_string()).code("context_length_exceeded"),
            // what a template says of a conversation
            Error::Chat(_) | Error::Template(_) => Failure::parameter("messages", error.to_string()),
            error => Failure::failed(error.to_string()),
        }
    }
}
