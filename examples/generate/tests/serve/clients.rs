//! Clients that come together, and clients that go away.

use std::time::Duration;

use futures_util::{StreamExt, future::join_all};
use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::server::{Server, Setup, events};

const COMPLETIONS: &str = "/v1/completions";

fn endless(stream: bool) -> Value {
    json!({ "prompt": "abc", "max_tokens": 500, "temperature": 0, "stream": stream })
}

#[tokio::test(flavor = "multi_thread")]
async fn many_clients_have_their_own_texts() {
    let server = Server::start(Setup { pages: 128, ..Setup::default() }).await;
    let one = |client: usize| {
        let server = &server;
        async move {
            for round in 0..3 {
                let text = format!("client {client}, round {round}: {}", "é".repeat(client % 20));
                let body = json!({ "prompt": format!("{text}$"), "temperature": 0, "max_tokens": 200 });
                let told = if client.is_multiple_of(2) {
                    server.ok(COMPLETIONS, body).await["choices"][0]["text"].as_str().expect("a text").to_owned()
                } else {
                    let events = server.stream(COMPLETIONS, body).await;
                    events.iter().filter_map(|event| event["choices"][0]["text"].as_str()).collect()
                };
                assert_eq!(told, text);
            }
        }
    };
    join_all((0..60).map(one)).await;
    server.drained().await;
    assert_eq!(server.engine.stats().failed, 0);
}

#[tokio::test]
async fn a_client_that_goes_away_cancels_its_request() {
    let server = Server::start(Setup { step: Duration::from_millis(5), ..Setup::default() }).await;
    // in the middle of a stream
    let response = server.send(COMPLETIONS, &endless(true)).await;
    let mut body = response.bytes_stream();
    for _ in 0..3 {
        body.next().await.expect("a part").expect("bytes");
    }
    assert_eq!(server.engine.stats().running, 1);
    drop(body);
    server.drained().await;
    let generated = server.engine.stats().generated_tokens;
    assert!(generated < 400, "{generated} tokens for a client that is gone");

    // while it waits for the whole text
    let waiting = server.client.post(server.url(COMPLETIONS)).json(&endless(false)).timeout(Duration::from_millis(100));
    assert!(waiting.send().await.expect_err("no answer in time").is_timeout());
    server.drained().await;

    // several choices of several prompts
    let body = json!({ "prompt": ["abc", "def"], "n": 3, "max_tokens": 400, "stream": true });
    let mut parts = server.send(COMPLETIONS, &body).await.bytes_stream();
    parts.next().await.expect("a part").expect("bytes");
    drop(parts);
    server.drained().await;
}

#[tokio::test]
async fn a_client_that_does_not_read_delays_no_other() {
    let server = Server::start(Setup::default()).await;
    let idle = server.send(COMPLETIONS, &endless(true)).await;
    let good = json!({ "prompt": "fine$", "temperature": 0 });
    assert_eq!(server.ok(COMPLETIONS, good).await["choices"][0]["text"], "fine");
    // its text is whole when it reads at last
    let events = events(&idle.text().await.expect("a text"));
    let text: String = events.iter().filter_map(|event| event["choices"][0]["text"].as_str()).collect();
    assert_eq!(text.len(), 500);
}

#[tokio::test]
async fn shutdown_lets_streams_end() {
    let mut server = Server::start(Setup { step: Duration::from_millis(2), ..Setup::default() }).await;
    let response = server.send(COMPLETIONS, &endless(true)).await;
    assert_eq!(response.status(), StatusCode::OK);
    server.shut_down();
    let events = events(&response.text().await.expect("a text"));
    let text: String = events.iter().filter_map(|event| event["choices"][0]["text"].as_str()).collect();
    assert_eq!(text, "abc".repeat(167)[..500]);
    assert_eq!(events.last().expect("events")["choices"][0]["finish_reason"], "length");
    let address = server.url("/health");
    let client = server.client.clone();
    server.ended().await;
    assert!(client.get(address).send().await.is_err(), "nobody listens");
}

#[tokio::test]
async fn shutdown_cancels_what_takes_too_long() {
    let grace = Duration::from_millis(200);
    let mut server = Server::start(Setup { step: Duration::from_millis(20), grace, ..Setup::default() }).await;
    let stream = server.send(COMPLETIONS, &endless(true)).await;
    let whole = server.client.post(server.url(COMPLETIONS)).json(&endless(false)).send();
    let asked = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        server.shut_down();
    };
    let (whole, ()) = tokio::join!(whole, asked);
    let whole: Value = whole.expect("an answer").json().await.expect("JSON");
    assert_eq!(whole["choices"][0]["finish_reason"], "abort");
    let events = events(&stream.text().await.expect("a text"));
    assert_eq!(events.last().expect("events")["choices"][0]["finish_reason"], "abort");
    server.ended().await;
}
