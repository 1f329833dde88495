//! Texts, whole and as streams.

use serde_json::{Value, json};

use crate::server::{Server, Setup};

const COMPLETIONS: &str = "/v1/completions";
const CHAT: &str = "/v1/chat/completions";

/// The texts of a stream's choices, its reasons, and the number of its parts.
fn joined(events: &[Value], text: impl Fn(&Value) -> Option<&str>) -> (Vec<String>, Vec<String>, usize) {
    let (mut texts, mut reasons, mut parts) = (Vec::new(), Vec::new(), 0);
    for choice in events.iter().flat_map(|event| event["choices"].as_array().expect("choices")) {
        let index = choice["index"].as_u64().expect("an index") as usize;
        texts.resize(texts.len().max(index + 1), String::new());
        reasons.resize(texts.len(), String::new());
        assert_eq!(reasons[index], "", "nothing follows the end of a choice");
        if let Some(part) = text(choice) {
            parts += usize::from(!part.is_empty());
            texts[index] += part;
        }
        if let Some(reason) = choice["finish_reason"].as_str() {
            reasons[index] = reason.into();
        }
    }
    (texts, reasons, parts)
}

fn completion_text(choice: &Value) -> Option<&str> {
    choice["text"].as_str()
}

fn chat_text(choice: &Value) -> Option<&str> {
    choice["delta"]["content"].as_str()
}

#[tokio::test]
async fn a_stream_has_the_text_of_the_whole() {
    let server = Server::start(Setup::default()).await;
    let body = json!({ "prompt": "a cat, a café, 世界 💖$", "temperature": 0, "max_tokens": 100 });
    let whole = server.ok(COMPLETIONS, body.clone()).await;
    let choice = &whole["choices"][0];
    assert_eq!((&choice["text"], &choice["finish_reason"]), (&json!("a cat, a café, 世界 💖"), &json!("stop")));
    assert_eq!((&whole["object"], &whole["model"]), (&json!("text_completion"), &json!("echo")));
    // 27 bytes and `$`, or the token that ends the text
    let usage = json!({
        "prompt_tokens": 28, "completion_tokens": 28, "total_tokens": 56,
        "prompt_tokens_details": { "cached_tokens": 0 },
    });
    assert_eq!(whole["usage"], usage);

    let events = server.stream(COMPLETIONS, body).await;
    let (texts, reasons, parts) = joined(&events, completion_text);
    assert_eq!((texts, reasons), (vec!["a cat, a café, 世界 💖".to_owned()], vec!["stop".to_owned()]));
    assert_eq!(parts, "a cat, a café, 世界 💖".chars().count(), "a part for each character");
    assert!(events.iter().all(|event| event["id"] == events[0]["id"] && event.get("usage").is_none()));
    server.drained().await;
}

#[tokio::test]
async fn usage_ends_a_stream_that_asks_for_it() {
    let server = Server::start(Setup::default()).await;
    let text = "x".repeat(40);
    let body = json!({
        "prompt": text, "temperature": 0, "max_tokens": 3, "stream_options": { "include_usage": true },
    });
    server.stream(COMPLETIONS, body.clone()).await;
    let events = server.stream(COMPLETIONS, body).await;
    let (last, others) = events.split_last().expect("events");
    assert!(others.iter().all(|event| event["usage"].is_null() && event.get("usage").is_some()));
    assert_eq!(last["choices"], json!([]));
    let usage = json!({
        "prompt_tokens": 40, "completion_tokens": 3, "total_tokens": 43,
        "prompt_tokens_details": { "cached_tokens": 32 },
    });
    assert_eq!(last["usage"], usage, "two pages of the prompt were cached by the first request");
}

#[tokio::test]
async fn chats_have_messages_and_deltas() {
    let server = Server::start(Setup::default()).await;
    let body = json!({
        "model": "echo",
        "messages": [
            { "role": "system", "content": "Be brief." },
            { "role": "user", "content": [{ "type": "text", "text": "Hel" }, { "type": "text", "text": "lo$" }] },
        ],
        "temperature": 0,
    });
    let whole = server.ok(CHAT, body.clone()).await;
    assert_eq!(whole["object"], "chat.completion");
    let message = json!({ "role": "assistant", "content": "Hello", "refusal": null });
    assert_eq!(whole["choices"][0]["message"], message);
    assert_eq!(whole["choices"][0]["finish_reason"], "stop");

    let events = server.stream(CHAT, body).await;
    assert_eq!(events[0]["choices"][0]["delta"], json!({ "role": "assistant", "content": "" }));
    assert!(events.iter().all(|event| event["object"] == "chat.completion.chunk"));
    let (texts, reasons, _) = joined(&events, chat_text);
    assert_eq!((texts, reasons), (vec!["Hello".to_owned()], vec!["stop".to_owned()]));
    assert_eq!(events.last().expect("events")["choices"][0]["delta"], json!({}));
}

#[tokio::test]
async fn a_chat_without_a_limit_may_fill_the_context() {
    let server = Server::start(Setup::default()).await;
    let body = json!({ "messages": [{ "role": "user", "content": "la" }], "temperature": 0 });
    let whole = server.ok(CHAT, body).await;
    assert_eq!(whole["choices"][0]["finish_reason"], "length");
    assert_eq!(whole["usage"]["total_tokens"], 512);
    // a pool smaller than the context gives what it has
    let server = Server::start(Setup { pages: 8, ..Setup::default() }).await;
    let body = json!({ "messages": [{ "role": "user", "content": "la" }], "temperature": 0 });
    assert_eq!(server.ok(CHAT, body).await["usage"]["total_tokens"], 128);
}

#[tokio::test]
async fn an_endless_text_exceeds_the_context() {
    let server = Server::start(Setup { endless: true, ..Setup::default() }).await;
    let ask = |endless: Value| json!({ "prompt": "ab", "max_tokens": 1200, "temperature": 0, "endless": endless });
    let text = |whole: &Value| whole["choices"][0]["text"].as_str().expect("a text").to_owned();
    // without it the context of 512 tokens ends the text
    assert_eq!(text(&server.ok(COMPLETIONS, ask(Value::Null)).await).len(), 510);
    let whole = server.ok(COMPLETIONS, ask(json!({ "sinks": 2, "window": 40 }))).await;
    assert_eq!((text(&whole), &whole["choices"][0]["finish_reason"]), ("ab".repeat(600), &json!("length")));
    let streamed = server.stream(COMPLETIONS, ask(json!({ "window": 100 }))).await;
    assert_eq!(joined(&streamed, completion_text).0, ["ab".repeat(600)]);
    let chat = json!({
        "messages": [{ "role": "user", "content": "la" }], "temperature": 0, "max_tokens": 700,
        "endless": { "window": 64 },
    });
    assert_eq!(server.ok(CHAT, chat).await["usage"]["completion_tokens"], 700);
    // sinks and window of 1024 keys are more than this model sees
    let (status, answer) = server.post(COMPLETIONS, ask(json!({}))).await;
    assert_eq!((status.as_u16(), &answer["error"]["param"]), (400, &json!("endless")), "{answer}");
    server.drained().await;
}

#[tokio::test]
async fn choices_are_apart_and_seeds_decide() {
    let server = Server::start(Setup::default()).await;
    let body = json!({ "prompt": "go", "n": 3, "seed": 7, "max_tokens": 12 });
    let whole = server.ok(COMPLETIONS, body.clone()).await;
    let texts: Vec<&str> =
        whole["choices"].as_array().expect("choices").iter().map(|c| c["text"].as_str().expect("a text")).collect();
    assert_eq!(texts.iter().map(|text| text.len()).collect::<Vec<_>>(), [12; 3]);
    assert!(texts[0] != texts[1] && texts[1] != texts[2]);
    assert_eq!(whole["usage"]["completion_tokens"], 36);

    let (streamed, reasons, _) = joined(&server.stream(COMPLETIONS, body).await, completion_text);
    assert_eq!((streamed, reasons), (texts.iter().map(|&text| text.to_owned()).collect(), vec!["length".into(); 3]));
    // choice i uses the seed plus i
    let second = server.ok(COMPLETIONS, json!({ "prompt": "go", "seed": 8, "max_tokens": 12 })).await;
    assert_eq!(second["choices"][0]["text"], texts[1]);
    let unseeded = json!({ "prompt": "go", "max_tokens": 40 });
    let (a, b) = (server.ok(COMPLETIONS, unseeded.clone()).await, server.ok(COMPLETIONS, unseeded).await);
    assert_ne!(a["choices"][0]["text"], b["choices"][0]["text"], "26^40 texts");
}

#[tokio::test]
async fn many_prompts_are_one_request() {
    let server = Server::start(Setup::default()).await;
    let text = |whole: &Value, index: usize| whole["choices"][index]["text"].as_str().expect("a text").to_owned();
    let texts = json!({ "prompt": ["one$", "two$"], "n": 2, "temperature": 0 });
    let whole = server.ok(COMPLETIONS, texts.clone()).await;
    assert_eq!([0, 1, 2, 3].map(|index| text(&whole, index)), ["one", "one", "two", "two"]);
    assert_eq!(whole["usage"]["prompt_tokens"], 8);
    let (streamed, _, _) = joined(&server.stream(COMPLETIONS, texts).await, completion_text);
    assert_eq!(streamed, ["one", "one", "two", "two"]);

    let tokens = server.ok(COMPLETIONS, json!({ "prompt": [111, 107, 36], "temperature": 0 })).await;
    assert_eq!(text(&tokens, 0), "ok");
    let lists = server.ok(COMPLETIONS, json!({ "prompt": [[97, 36], [98, 36]], "temperature": 0 })).await;
    assert_eq!([0, 1].map(|index| text(&lists, index)), ["a", "b"]);
}

#[tokio::test]
async fn stop_strings_never_show() {
    let server = Server::start(Setup::default()).await;
    let cases = [
        (json!("STOP"), "one STOP two$", "one ", "stop", json!("STOP")),
        (json!(["zz", "\n\n"]), "a\nb\n\nc$", "a\nb", "stop", json!("\n\n")),
        (json!(["é!"]), "café!$", "caf", "stop", json!("é!")),
        (json!(["STOP"]), "one STO$", "one STO", "stop", Value::Null),
        (json!("STOP"), "STOP$", "", "stop", json!("STOP")),
        (json!("none"), "abcdefgh", "abcdefghab", "length", Value::Null),
    ];
    for (stop, prompt, expected, reason, found) in cases {
        let body = json!({ "prompt": prompt, "stop": stop, "temperature": 0, "max_tokens": 10 });
        let whole = server.ok(COMPLETIONS, body.clone()).await;
        let choice = &whole["choices"][0];
        assert_eq!((&choice["text"], &choice["finish_reason"]), (&json!(expected), &json!(reason)), "{prompt:?}");
        assert_eq!(choice["stop_reason"], found, "{prompt:?}");
        let (texts, reasons, _) = joined(&server.stream(COMPLETIONS, body).await, completion_text);
        assert_eq!((texts, reasons), (vec![expected.to_owned()], vec![reason.to_owned()]), "{prompt:?}");
    }
    // a choice that stops does not end the others
    let body = json!({ "prompt": ["aSTOP", "bcdef"], "stop": "STOP", "temperature": 0, "max_tokens": 200 });
    let whole = server.ok(COMPLETIONS, body).await;
    assert_eq!((&whole["choices"][0]["text"], &whole["choices"][1]["finish_reason"]), (&json!("a"), &json!("length")));
    server.drained().await;
}

#[tokio::test]
async fn tokens_stop_and_are_ignored_and_allowed() {
    let server = Server::start(Setup::default()).await;
    let text = |whole: Value| whole["choices"][0]["text"].as_str().expect("a text").to_owned();
    let ignore = json!({ "prompt": "ab$", "ignore_eos": true, "temperature": 0, "max_tokens": 6 });
    assert_eq!(text(server.ok(COMPLETIONS, ignore).await), "abab");
    let token = json!({ "prompt": "abcd", "stop_token_ids": [99], "temperature": 0, "max_tokens": 6 });
    assert_eq!(text(server.ok(COMPLETIONS, token).await), "abc");
    let allowed = json!({ "prompt": "abcd", "allowed_token_ids": [99, 122], "temperature": 0, "max_tokens": 4 });
    assert_eq!(text(server.ok(COMPLETIONS, allowed).await), "cccc");
    let echo = json!({ "prompt": "ab", "echo": true, "temperature": 0, "max_tokens": 3, "n": 2 });
    assert_eq!(text(server.ok(COMPLETIONS, echo.clone()).await), "ababa");
    assert_eq!(joined(&server.stream(COMPLETIONS, echo).await, completion_text).0, ["ababa", "ababa"]);
}

#[tokio::test]
async fn logprobs_come_with_their_text() {
    let server = Server::start(Setup::default()).await;
    let body = json!({ "prompt": "aé$", "temperature": 0, "logprobs": 2 });
    let whole = server.ok(COMPLETIONS, body.clone()).await;
    let logprobs = &whole["choices"][0]["logprobs"];
    assert_eq!(logprobs["tokens"], json!(["a", "\u{FFFD}", "\u{FFFD}", "<eos>"]));
    // characters, as OpenAI has it
    assert_eq!(logprobs["text_offset"], json!([0, 1, 1, 2]));
    assert_eq!(logprobs["token_logprobs"], json!([-0.5, -0.5, -0.5, -0.5]));
    assert_eq!(logprobs["top_logprobs"][0], json!({ "a": -0.5, "b": -1.0 }));
    let streamed: Vec<Value> = server
        .stream(COMPLETIONS, body)
        .await
        .iter()
        .flat_map(|event| event["choices"][0]["logprobs"]["tokens"].as_array().cloned().unwrap_or_default())
        .collect();
    assert_eq!(json!(streamed), logprobs["tokens"]);

    let body = json!({
        "messages": [{ "role": "user", "content": "hi$" }], "temperature": 0, "logprobs": true, "top_logprobs": 1,
    });
    let whole = server.ok(CHAT, body).await;
    let content = whole["choices"][0]["logprobs"]["content"].as_array().expect("tokens").clone();
    assert_eq!(content.len(), 3);
    let top = json!([{ "token": "h", "logprob": -0.5, "bytes": [104] }]);
    assert_eq!(content[0], json!({ "token": "h", "logprob": -0.5, "bytes": [104], "top_logprobs": top }));
}

/// Tokens after `é` are parts of characters, which all have one name.
#[tokio::test]
async fn likely_tokens_of_one_name_are_all_there() {
    let server = Server::start(Setup::default()).await;
    let body = json!({ "prompt": "é$", "temperature": 0, "logprobs": 3 });
    let whole = server.ok(COMPLETIONS, body).await;
    let top = &whole["choices"][0]["logprobs"]["top_logprobs"][0];
    assert_eq!(top, &json!({ "\u{FFFD}": -0.5, "token_id:196": -1.0, "token_id:197": -1.5 }));
    let body = json!({
        "messages": [{ "role": "user", "content": "é$" }], "temperature": 0, "logprobs": true, "top_logprobs": 3,
    });
    let content = &server.ok(CHAT, body).await["choices"][0]["logprobs"]["content"];
    assert_eq!(content[0]["top_logprobs"].as_array().map(Vec::len), Some(3));
    assert_eq!((&content[2]["token"], &content[2]["bytes"]), (&json!("<eos>"), &Value::Null));
}

#[tokio::test]
async fn a_prompt_is_scored_and_repeated() {
    let server = Server::start(Setup::default()).await;
    let body = json!({ "prompt": "aéb$", "temperature": 0, "logprobs": 1, "echo": true, "n": 2, "max_tokens": 2 });
    let whole = server.ok(COMPLETIONS, body.clone()).await;
    for choice in whole["choices"].as_array().expect("choices") {
        assert_eq!(choice["text"], "aéb$aé".strip_suffix('é').map(|text| format!("{text}\u{FFFD}")).expect("é"));
        let logprobs = &choice["logprobs"];
        assert_eq!(logprobs["tokens"], json!(["a", "\u{FFFD}", "\u{FFFD}", "b", "$", "a", "\u{FFFD}"]));
        assert_eq!(logprobs["text_offset"], json!([0, 1, 1, 2, 3, 4, 5]));
        assert_eq!(logprobs["token_logprobs"], json!([null, -0.5, -0.5, -0.5, -0.5, -0.5, -0.5]));
        let top = logprobs["top_logprobs"].as_array().expect("an array");
        assert!(top[0].is_null() && top[3] == json!({ "b": -0.5 }), "{top:?}");
    }
    // a stream has the same, the prompt first
    let events = server.stream(COMPLETIONS, body).await;
    let of_second = events.iter().flat_map(|event| event["choices"].as_array().expect("choices"));
    let of_second: Vec<&Value> = of_second.filter(|choice| choice["index"] == 1).collect();
    assert_eq!(of_second[0]["text"], "aéb$");
    let tokens = of_second.iter().filter_map(|choice| choice["logprobs"]["tokens"].as_array()).flatten();
    assert_eq!(tokens.count(), 7);

    // prompts of one token, and a long one beside texts that run
    let body = json!({
        "prompt": ["a".to_owned(), "x".repeat(300)], "temperature": 0, "logprobs": 0, "echo": true, "max_tokens": 1,
    });
    let whole = server.ok(COMPLETIONS, body.clone()).await;
    assert_eq!(whole["choices"][0]["logprobs"]["token_logprobs"], json!([null, -0.5]));
    assert_eq!(whole["choices"][1]["logprobs"]["tokens"].as_array().map(Vec::len), Some(301));
    let again = server.ok(COMPLETIONS, body).await;
    assert_eq!(again["choices"][1]["logprobs"], whole["choices"][1]["logprobs"], "a cached prefix has no logits");
    let body = json!({ "prompt": "ab", "logprobs": 0, "echo": true, "n": 64, "max_tokens": 1 });
    let (status, answer) = server.post(COMPLETIONS, body).await;
    assert_eq!((status.as_u16(), &answer["error"]["param"]), (400, &json!("n")), "{answer}");
    server.drained().await;
}
