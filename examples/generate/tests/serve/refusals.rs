//! Requests that are not served, and what their clients are told.

use std::time::Duration;

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::{
    echo::NOT_FINITE,
    server::{Server, Setup},
};

const COMPLETIONS: &str = "/v1/completions";
const CHAT: &str = "/v1/chat/completions";

/// Checks the form of OpenAI's errors.
fn check(status: StatusCode, answer: &Value, expected: StatusCode, param: Option<&str>, message: &str) {
    assert_eq!(status, expected, "{answer}");
    let error = answer["error"].as_object().expect("an error");
    let keys: Vec<&String> = error.keys().collect();
    assert_eq!(keys, ["code", "message", "param", "type"], "{answer}");
    assert_eq!(error["param"].as_str(), param, "{answer}");
    assert!(error["message"].as_str().expect("a message").contains(message), "{answer}");
}

#[tokio::test]
async fn bad_parameters_are_named() {
    let server = Server::start(Setup::default()).await;
    let prompt = |key: &str, value: Value| {
        let mut body = json!({ "prompt": "a$", "temperature": 0 });
        body[key] = value;
        (COMPLETIONS, body)
    };
    let chat = |key: &str, value: Value| {
        let mut body = json!({ "messages": [{ "role": "user", "content": "a$" }], "temperature": 0 });
        body[key] = value;
        (CHAT, body)
    };
    let cases = [
        (prompt("temperature", json!(-1)), Some("temperature"), "must be finite, 0 or more"),
        (prompt("temperature", json!("hot")), Some("temperature"), "expected f32"),
        (prompt("temperature", json!(1e39)), Some("temperature"), "temperature"),
        (prompt("top_p", json!(1.5)), Some("top_p"), "in 0..=1"),
        (prompt("min_p", json!(-0.5)), Some("min_p"), "in 0..=1"),
        (prompt("top_k", json!(-7)), Some("top_k"), "0 or more"),
        (prompt("top_k", json!(1.5)), Some("top_k"), "expected i64"),
        (prompt("repetition_penalty", json!(0)), Some("repetition_penalty"), "more than 0"),
        (
            prompt("max_tokens", json!(0)),
            Some("max_tokens"),
            "the number of tokens to generate is 0; it must be 1 or more",
        ),
        (chat("max_completion_tokens", json!(0)), Some("max_completion_tokens"), "is 0; it must be 1 or more"),
        (prompt("max_tokens", json!(-3)), Some("max_tokens"), "expected usize"),
        (prompt("n", json!(0)), Some("n"), "1 to"),
        (prompt("n", json!(1000)), Some("n"), "1 to 64"),
        (prompt("logprobs", json!(6)), Some("logprobs"), "1 to 5"),
        (prompt("seed", json!("x")), Some("seed"), "expected i64"),
        (prompt("stop", json!(["a", ""])), Some("stop"), "empty"),
        (prompt("stop", json!(vec!["a"; 17])), Some("stop"), "at most 16"),
        (prompt("stop", json!([1])), Some("stop"), "an array of"),
        (prompt("prompt", json!("")), Some("prompt"), "empty"),
        (prompt("prompt", json!([])), Some("prompt"), "1 to 128"),
        (prompt("prompt", json!({})), Some("prompt"), "array of strings"),
        (prompt("prompt", json!([1, 100_000])), Some("prompt"), "vocabulary ends at 256"),
        (prompt("prompt", json!("x".repeat(512))), Some("prompt"), "at most 511"),
        (prompt("prompt", json!([1, "a"])), Some("prompt"), "array of strings"),
        (prompt("prompt", json!([-1])), Some("prompt"), "array of strings"),
        (prompt("prompt", json!(vec!["a"; 129])), Some("prompt"), "1 to 128"),
        (prompt("seed", json!(1e300)), Some("seed"), "expected i64"),
        (prompt("n", json!(u64::MAX)), Some("n"), "1 to 64"),
        (prompt("stop_token_ids", json!(vec![1; 129])), Some("stop_token_ids"), "more than 128"),
        (prompt("cache_salt", json!("s".repeat(257))), Some("cache_salt"), "it may have 256"),
        (prompt("stop_token_ids", json!([257])), Some("stop_token_ids"), "vocabulary ends at 256"),
        (prompt("allowed_token_ids", json!([])), Some("allowed_token_ids"), "no token"),
        (prompt("allowed_token_ids", json!([257])), Some("allowed_token_ids"), "257 tokens"),
        (prompt("stream_options", json!({})), Some("stream_options"), "stream"),
        (prompt("best_of", json!(2)), Some("best_of"), "`best_of` is not supported; leave it out, or send 1"),
        (prompt("logit_bias", json!({ "1": 5 })), Some("logit_bias"), "`logit_bias` is not supported"),
        (prompt("suffix", json!("z")), Some("suffix"), "`suffix` is not supported"),
        (prompt("max_completion_tokens", json!(3)), Some("max_completion_tokens"), "`prompt`, `max_tokens`, `echo`"),
        (chat("prompt", json!("a")), Some("prompt"), "`messages`, `max_tokens`, `max_completion_tokens`"),
        (
            chat("tools", json!([{ "type": "function" }])),
            Some("tools"),
            "`tools` is not supported; leave it out, or send []",
        ),
        (chat("tool_choice", json!("required")), Some("tool_choice"), "`tool_choice` is not supported"),
        (chat("reasoning_effort", json!("high")), Some("reasoning_effort"), "`reasoning_effort` is not supported"),
        (
            chat("response_format", json!({ "type": "json_object" })),
            Some("response_format"),
            "`response_format` is not supported",
        ),
        (chat("logprobs", json!(3)), Some("logprobs"), "expected a boolean"),
        (chat("top_logprobs", json!(3)), Some("top_logprobs"), "logprobs"),
        (prompt("endless", json!({ "window": 10 })), Some("endless"), "rotates keys"),
        (prompt("endless", json!({ "size": 10 })), Some("endless.size"), "expected `sinks` or `window`"),
        (chat("endless", json!(true)), Some("endless"), "expected struct"),
        (chat("messages", json!([])), Some("messages"), "no message"),
        (chat("messages", json!([{ "role": "robot", "content": "a" }])), Some("messages[0].role"), "robot"),
        (chat("messages", json!([{ "role": "user" }])), Some("messages[0]"), "content"),
        (chat("messages", json!([{ "role": "user", "content": null }])), Some("messages[0]"), "content"),
        (
            chat("messages", json!([{ "role": "user", "content": "a", "mood": 1 }])),
            Some("messages[0].mood"),
            "unknown field",
        ),
        (
            chat("messages", json!([{ "role": "assistant", "content": null, "tool_calls": [{}] }])),
            Some("messages[0].tool_calls"),
            "not supported",
        ),
        (
            chat("messages", json!([{ "role": "user", "content": [{ "type": "image_url", "image_url": "x" }] }])),
            Some("messages[0].content"),
            "images",
        ),
        (chat("max_tokens", json!(1.5)), Some("max_tokens"), "usize"),
    ];
    for ((path, body), param, message) in cases {
        let (status, answer) = server.post(path, body).await;
        check(status, &answer, StatusCode::BAD_REQUEST, param, message);
    }
    let both = json!({
        "messages": [{ "role": "user", "content": "a" }], "max_tokens": 3, "max_completion_tokens": 4,
    });
    let (status, answer) = server.post(CHAT, both).await;
    check(status, &answer, StatusCode::BAD_REQUEST, Some("max_tokens"), "give one of them");
    let (status, answer) = server.post(COMPLETIONS, json!({ "prompt": "a", "model": "gpt-5" })).await;
    check(status, &answer, StatusCode::NOT_FOUND, Some("model"), "this server has `echo`");
    assert_eq!(answer["error"]["code"], "model_not_found");
    assert_eq!(server.engine.stats().computed_tokens, 0, "nothing of all that was run");
}

#[tokio::test]
async fn what_changes_no_text_is_no_error() {
    let server = Server::start(Setup::default()).await;
    // what openai-python sends back of an answer, and what its users add
    let assistant = json!({
        "role": "assistant", "content": null, "refusal": null, "tool_calls": null, "function_call": null,
        "audio": null, "annotations": [],
    });
    let body = json!({
        "messages": [
            { "role": "developer", "content": "x", "name": "operator" }, assistant,
            { "role": "user", "content": [{ "type": "text", "text": "a$" }], "name": "me" },
        ],
        "temperature": 0, "tool_choice": "auto", "function_call": "none", "parallel_tool_calls": true,
        "service_tier": "auto", "metadata": { "a": "b" }, "safety_identifier": "s", "prompt_cache_key": "k",
        "prompt_cache_retention": "24h", "store": true, "user": "me", "modalities": ["text"], "verbosity": "medium",
        "prediction": { "type": "content", "content": "a" }, "reasoning_effort": null, "audio": null,
        "tools": [], "response_format": { "type": "text" }, "logit_bias": {}, "stop": null, "top_k": -1,
        "seed": -5, "n": null,
    });
    assert_eq!(server.ok(CHAT, body.clone()).await["choices"][0]["message"]["content"], "a");
    let mut body = body;
    body["stream_options"] = json!({ "include_usage": true, "include_obfuscation": false });
    server.stream(CHAT, body).await;
    let body = json!({ "prompt": "a$", "temperature": 0, "best_of": 1, "suffix": "", "user": "me", "store": true });
    assert_eq!(server.ok(COMPLETIONS, body).await["choices"][0]["text"], "a");
}

#[tokio::test]
async fn bodies_that_are_no_requests() {
    let server = Server::start(Setup { max_body: 4096, ..Setup::default() }).await;
    let send = async |kind: &str, body: Vec<u8>| {
        let request = server.client.post(server.url(COMPLETIONS)).header("content-type", kind).body(body);
        let response = request.send().await.expect("an answer");
        (response.status(), response.json::<Value>().await.expect("JSON"))
    };
    let json = "application/json; charset=utf-8";
    for (body, param, message) in [
        (&b""[..], None, "not valid JSON"),
        (b"{", None, "not valid JSON"),
        (b"{} {}", None, "not valid JSON"),
        (b"{\"top_p\": NaN}", None, "not valid JSON"),
        (b"{\"top_p\": 1e999}", None, "out of range"),
        (b"{\"prompt\": \"\xFF\"}", None, "not valid JSON"),
        (b"{\"prompt\": \"\\ud800\"}", None, "not valid JSON"),
        (&[b'['; 4000], None, "not valid JSON"),
        (b"[]", None, "JSON object"),
        (b"\"a\"", None, "JSON object"),
        (b"{}", None, "missing field `prompt`"),
        (br#"{"tools": [1]}"#, Some("tools"), "`tools` is not supported; leave it out, or send []"),
        (br#"{"n": 1, "n": 2}"#, Some("n"), "the field `n` is given twice"),
        (br#"{"promt": "a"}"#, Some("promt"), "unknown field `promt`; there are `model`, `stream`"),
    ] {
        let (status, answer) = send(json, body.to_vec()).await;
        check(status, &answer, StatusCode::BAD_REQUEST, param, message);
    }
    let (status, answer) = send(json, vec![b' '; 4097]).await;
    check(status, &answer, StatusCode::PAYLOAD_TOO_LARGE, None, "larger");
    let (status, answer) = send("text/plain", b"{\"prompt\": \"a\"}".to_vec()).await;
    check(status, &answer, StatusCode::UNSUPPORTED_MEDIA_TYPE, None, "Content-Type");
    // the largest body that is taken
    let prompt = "x".repeat(100);
    let mut body = json!({ "prompt": prompt, "max_tokens": 1, "temperature": 0 }).to_string().into_bytes();
    body.resize(4096, b' ');
    assert_eq!(send(json, body).await.0, StatusCode::OK);
}

#[tokio::test]
async fn paths_and_methods_that_do_not_exist() {
    let server = Server::start(Setup::default()).await;
    let (status, answer) = server.post("/v1/embeddings", json!({})).await;
    check(status, &answer, StatusCode::NOT_FOUND, None, "/v1/embeddings");
    let response = server.get(COMPLETIONS).await;
    let status = response.status();
    check(status, &response.json().await.expect("JSON"), StatusCode::METHOD_NOT_ALLOWED, None, "GET");
}

#[tokio::test]
async fn a_failed_request_fails_alone() {
    let server = Server::start(Setup::default()).await;
    let bad = json!({ "prompt": format!("a{NOT_FINITE}"), "temperature": 0 });
    let good = json!({ "prompt": "fine$", "temperature": 0 });
    let (failed, served) = tokio::join!(server.post(COMPLETIONS, bad.clone()), server.ok(COMPLETIONS, good.clone()));
    check(failed.0, &failed.1, StatusCode::INTERNAL_SERVER_ERROR, None, "");
    assert_eq!(failed.1["error"]["type"], "server_error");
    assert_eq!(served["choices"][0]["text"], "fine");
    // a stream that has begun says it in an event
    let events = server.stream(COMPLETIONS, bad).await;
    assert_eq!(events.last().expect("an event")["error"]["code"], "request_failed");
    assert_eq!(server.ok(COMPLETIONS, good).await["choices"][0]["text"], "fine");
    server.drained().await;
}

#[tokio::test]
async fn a_full_queue_is_busy_and_then_is_not() {
    let server = Server::start(Setup { max_waiting: 4, step: Duration::from_millis(5), pages: 40, ..Setup::default() });
    let server = server.await;
    let body = json!({ "prompt": "ab", "max_tokens": 400, "temperature": 0 });
    let answers = (0..24).map(|_| server.send(COMPLETIONS, &body));
    let answers = futures_util::future::join_all(answers).await;
    let busy: Vec<_> = answers.into_iter().filter(|answer| answer.status() == StatusCode::TOO_MANY_REQUESTS).collect();
    assert!(!busy.is_empty() && busy.len() < 24, "{} of 24 were refused", busy.len());
    for answer in busy {
        assert!(answer.headers().contains_key("retry-after"));
        let status = answer.status();
        check(status, &answer.json().await.expect("JSON"), StatusCode::TOO_MANY_REQUESTS, None, "try again");
    }
    server.drained().await;
    assert_eq!(server.ok(COMPLETIONS, body).await["choices"][0]["finish_reason"], "length");
}

#[tokio::test]
async fn a_full_queue_says_when_it_will_have_been_served() {
    // one prompt fills the pool, and a text takes 2 s
    let setup = Setup { max_waiting: 2, step: Duration::from_millis(100), pages: 8, ..Setup::default() };
    let server = Server::start(setup).await;
    let body = |prompt: char| json!({ "prompt": prompt.to_string().repeat(100), "max_tokens": 20, "temperature": 0 });
    server.ok(COMPLETIONS, body('z')).await;
    let bodies: Vec<Value> = ('a'..='h').map(body).collect();
    let answers = futures_util::future::join_all(bodies.iter().map(|body| server.send(COMPLETIONS, body))).await;
    let busy = answers.iter().filter(|answer| answer.status() == StatusCode::TOO_MANY_REQUESTS);
    let seconds =
        busy.map(|answer| answer.headers()["retry-after"].to_str().expect("a text").parse().expect("seconds"));
    let seconds: Vec<u64> = seconds.collect();
    // two or three wait, and none or one runs: 2/3 of 2 s at least
    assert!(!seconds.is_empty() && seconds.iter().all(|seconds| (2..=60).contains(seconds)), "{seconds:?}");
}

#[tokio::test]
async fn what_never_fits_is_refused() {
    let server = Server::start(Setup { pages: 8, ..Setup::default() }).await;
    let body = json!({ "prompt": "x".repeat(100), "max_tokens": 200, "temperature": 0 });
    let (status, answer) = server.post(COMPLETIONS, body).await;
    check(status, &answer, StatusCode::BAD_REQUEST, None, "pages");
}
