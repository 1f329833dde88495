//! What operators look at.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{
    echo::NOT_FINITE,
    server::{Server, Setup},
};

/// The samples of a text for Prometheus.
fn samples(text: &str) -> BTreeMap<String, f64> {
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    let parse = |line: &str| {
        let (name, value) = line.rsplit_once(' ').expect("a name and a value");
        (name.to_owned(), value.parse().expect("a number"))
    };
    samples.map(parse).collect()
}

#[tokio::test]
async fn metrics_count_what_happens() {
    let server = Server::start(Setup::default()).await;
    let metrics = async || samples(&server.get("/metrics").await.text().await.expect("a text"));
    let before = metrics().await;
    assert_eq!((before["generate_running"], before["generate_generated_tokens_total"]), (0.0, 0.0));
    assert_eq!(before["generate_pages_free"], 256.0);
    let prompt = "x".repeat(40);
    for _ in 0..2 {
        server.ok("/v1/completions", json!({ "prompt": prompt, "max_tokens": 5, "n": 2 })).await;
    }
    server.post("/v1/completions", json!({ "prompt": "" })).await;
    server.post("/v1/completions", json!({ "prompt": NOT_FINITE.to_string() })).await;
    server.get("/nowhere").await;
    server.drained().await;
    let after = metrics().await;
    let expected = [
        ("generate_prompt_tokens_total", 81.0),
        ("generate_cached_prompt_tokens_total", 32.0),
        ("generate_generated_tokens_total", 20.0),
        ("generate_prefix_hit_tokens", 32.0),
        ("generate_time_to_first_token_seconds_count", 4.0),
        ("generate_inter_token_latency_seconds_count", 16.0),
        ("generate_request_duration_seconds_count", 5.0),
        ("generate_choices_finished_total{reason=\"failed\"}", 1.0),
        ("generate_http_responses_total{path=\"/v1/completions\",status=\"500\"}", 1.0),
        ("generate_choices_finished_total{reason=\"length\"}", 4.0),
        ("generate_http_responses_total{path=\"/v1/completions\",status=\"200\"}", 2.0),
        ("generate_http_responses_total{path=\"/v1/completions\",status=\"400\"}", 1.0),
        ("generate_http_responses_total{path=\"other\",status=\"404\"}", 1.0),
    ];
    for (name, value) in expected {
        assert_eq!(after.get(name), Some(&value), "{name} in {after:#?}");
    }
    assert_eq!(after["generate_pages_free"] + after["generate_pages_evictable"], 256.0);
    let buckets = after.iter().filter(|(name, _)| name.starts_with("generate_inter_token_latency_seconds_bucket"));
    assert_eq!(buckets.count(), 19);
}

#[tokio::test]
async fn the_model_is_listed_and_the_server_is_healthy() {
    let server = Server::start(Setup::default()).await;
    let models: Value = server.get("/v1/models").await.json().await.expect("JSON");
    let model = &models["data"][0];
    assert_eq!(
        (&models["object"], &model["id"], &model["max_model_len"]),
        (&json!("list"), &json!("echo"), &json!(512))
    );
    let one = server.get("/v1/models/echo").await;
    assert_eq!(one.status(), 200);
    assert_eq!(&one.json::<Value>().await.expect("JSON"), model);
    let other = server.get("/v1/models/owner/other").await;
    assert_eq!(other.status(), 404);
    let other: Value = other.json().await.expect("JSON");
    assert_eq!(other["error"]["code"], "model_not_found");
    let health = server.get("/health").await;
    assert_eq!(health.status(), 200);
    server.engine.shutdown(std::time::Duration::ZERO);
    let health = server.get("/health").await;
    assert_eq!(health.status(), 503);
    assert!(health.headers().contains_key("retry-after"));
    let refused = server.send("/v1/completions", &json!({ "prompt": "a" })).await;
    assert_eq!(refused.status(), 503);
}

#[tokio::test]
async fn the_page_loads_nothing_from_elsewhere() {
    let server = Server::start(Setup::default()).await;
    let page = server.get("/").await;
    let policy = page.headers()["content-security-policy"].to_str().expect("a text").to_owned();
    assert!(policy.contains("default-src 'none'") && policy.contains("connect-src 'self'"), "{policy}");
    let html = page.text().await.expect("a text");
    assert!(html.contains("<html lang=\"en\">"));
    // the namespace of the icon is a name
    let links = html.replace("http://www.w3.org/2000/svg", "");
    assert!(!links.contains("http://") && !links.contains("https://") && !links.contains("src="));
}
