//! The JSON of a request: read strictly, so that nothing is ignored in silence.

use axum::{
    body::Bytes,
    extract::{FromRequest, Request, rejection::BytesRejection},
    http::{StatusCode, header::CONTENT_TYPE},
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::{failure::Failure, parameters::Parameters};

/// The body of a request: what all requests share and what is of this kind. Or the failure that says what is wrong.
pub(crate) struct Body<T>(pub(crate) Parameters, pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, state: &S) -> Result<Self, Failure> {
        let json = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).is_some_and(is_json);
        if !json {
            let message = "the body must be JSON, with the header `Content-Type: application/json`";
            return Err(Failure::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
        }
        let bytes = Bytes::from_request(request, state).await.map_err(|rejection: BytesRejection| {
            let status = rejection.status();
            let message = match status {
                StatusCode::PAYLOAD_TOO_LARGE => "the body is larger than this server takes".into(),
                _ => format!("the body could not be read: {}", rejection.body_text()),
            };
            Failure::new(status, message)
        })?;
        let (parameters, own) = parse(&bytes)?;
        Ok(Body(parameters, own))
    }
}

fn is_json(value: &str) -> bool {
    value.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

/// Parses a body. `null` stands for a parameter that is not given, as in OpenAI's API.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<(Parameters, T), Failure> {
    let bad = |message| Failure::new(StatusCode::BAD_REQUEST, message);
    let mut value: Value =
        serde_json::from_slice(bytes).map_err(|error| bad(format!("the body is not valid JSON: {error}")))?;
    drop_nulls(&mut value);
    let Value::Object(fields) = &mut value else { return Err(bad("the body must be a JSON object".into())) };
    fields.retain(|name, value| !asks_nothing(name, value));
    let shared: Map<String, Value> = Parameters::NAMES.iter().filter_map(|&name| fields.remove_entry(name)).collect();
    Ok((typed(Value::Object(shared))?, typed(value)?))
}

fn typed<T: DeserializeOwned>(value: Value) -> Result<T, Failure> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        let message = error.inner().to_string();
        let failure = |message| Failure::new(StatusCode::BAD_REQUEST, message);
        if path == "." {
            return failure(message);
        }
        Failure { param: Some(path.clone()), ..failure(format!("`{path}`: {message}")) }
    })
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(values) => values.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// Parameters that are not supported, with the value that clients send to ask for nothing; and `user`, which changes
/// no text.
fn asks_nothing(name: &str, value: &Value) -> bool {
    match name {
        "user" => value.is_string(),
        "best_of" => *value == json!(1),
        "logit_bias" | "metadata" => *value == json!({}),
        "tools" | "functions" => *value == json!([]),
        "tool_choice" => *value == json!("none"),
        "response_format" => *value == json!({ "type": "text" }),
        "suffix" => *value == json!(""),
        "store" => *value == json!(false),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Sample {
        #[serde(default)]
        logprobs: Option<usize>,
        prompt: Vec<String>,
    }

    #[test]
    fn null_and_neutral_values_are_nothing() {
        let body = br#"{"logprobs": null, "prompt": ["a"], "tools": [], "logit_bias": {}, "user": "me", "n": 2}"#;
        let (parameters, sample) = parse::<Sample>(body).expect("a body");
        assert_eq!((parameters.choices(), sample), (2, Sample { logprobs: None, prompt: vec!["a".into()] }));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let cases: [(&[u8], Option<&str>, &str); 6] = [
            (b"{", None, "not valid JSON"),
            (b"\xFF\xFE", None, "not valid JSON"),
            (b"[1]", None, "JSON object"),
            (br#"{"tools": [1]}"#, Some("tools"), "unknown field `tools`"),
            (br#"{"temperature": "hot"}"#, Some("temperature"), "expected f32"),
            (br#"{"prompt": ["a", 1]}"#, Some("prompt[1]"), "expected a string"),
        ];
        for (body, param, expected) in cases {
            let failure = parse::<Sample>(body).expect_err("refused");
            assert_eq!((failure.status, failure.param.as_deref()), (StatusCode::BAD_REQUEST, param), "{failure:?}");
            assert!(failure.message.contains(expected), "{failure:?}");
        }
    }
}
