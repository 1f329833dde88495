//! The program, from the command line to the model and back.

use std::{
    io::{BufRead, BufReader, Write as _},
    process::{Child, Command, Output, Stdio},
};

use attn_needs::{Need, has};
use futures_util::future::join_all;
use generate::model::fetch::model_file;
use serde_json::{Value, json};

fn generate(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_generate"));
    command.args(["--device", "cpu"]).args(words).env_remove("GENERATE_LOG");
    command
}

/// Whether the model file is there, or comes through pip.
fn has_model() -> bool {
    has(Need::Model, model_file(None))
}

fn run(words: &[&str]) -> Output {
    generate(words).output().expect("a process")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

#[test]
fn one_cpu_is_not_several_gpus() {
    let output = run(&["Hello", "--gpus", "2"]);
    assert!(text(&output.stderr).contains("the CPU is one device"), "{}", text(&output.stderr));
}

#[test]
fn a_prompt_is_continued() {
    if !has_model() {
        return;
    }
    let output = run(&["The capital of France is", "--max-tokens", "2"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "The capital of France is Paris.\n");
    assert!(text(&output.stderr).contains("5 tokens of prompt"), "{}", text(&output.stderr));
}

#[test]
fn several_texts_of_a_chat_come_from_the_standard_input() {
    if !has_model() {
        return;
    }
    let words = ["-", "--chat", "-n", "2", "--temperature", "0.9", "--seed", "5", "--max-tokens", "4"];
    let mut process = generate(&words).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a process");
    process.stdin.take().expect("a pipe").write_all("Say héllo.\n".as_bytes()).expect("written");
    let output = process.wait_with_output().expect("an end");
    assert!(output.status.success());
    let said = text(&output.stdout);
    assert!(said.contains("\n--- 2 of 2\n") && said.len() > 20, "{said}");
}

/// The window has 12 keys: most tokens of the text have left it when the text ends.
#[test]
fn a_text_is_written_beyond_its_window() {
    if !has_model() {
        return;
    }
    let output = run(&["Once upon a time", "--endless", "--window", "12", "--max-tokens", "40"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("\n 40 tokens, "), "{}", text(&output.stderr));
}

#[test]
fn what_is_wrong_is_an_error() {
    let mut cases: Vec<(&[&str], i32, &str)> = vec![
        (&[], 2, "required"),
        (&["a", "--serve"], 2, "cannot be used with"),
        (&["a", "--cache-dtype", "int4"], 2, "invalid value"),
        (&["a", "--model", "/nowhere.gguf"], 1, "/nowhere.gguf"),
        (&["a", "--page-size", "0"], 1, "--page-size"),
        (&["--serve", "--addr", "192.0.2.1:80"], 1, "cannot listen on 192.0.2.1:80"),
    ];
    if has_model() {
        cases.push((&["a", "--temperature=-1"], 1, "must be finite, 0 or more"));
        cases.push((&["a", "--endless", "--window", "0"], 1, "the window has at least 1 key"));
    }
    for (words, code, message) in cases {
        let output = run(words);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {error}");
        assert!(error.contains(message) && !error.contains("panicked"), "{words:?}: {error}");
    }
}

/// A server, which ends with the test.
struct Server {
    child: Child,
    address: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    fn start(words: &[&str]) -> Self {
        let words = [&["--serve", "--addr", "127.0.0.1:0"], words].concat();
        let mut child = generate(&words).stdout(Stdio::piped()).spawn().expect("a process");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
        let (_, address) = line.trim().trim_end_matches('/').split_once("//").expect("an address");
        Server { child, address: address.to_owned() }
    }

    async fn post(&self, path: &str, body: String) -> reqwest::Result<reqwest::Response> {
        let request = reqwest::Client::new().post(format!("http://{}{path}", self.address)).body(body);
        request.header("content-type", "application/json").send().await
    }

    /// KiB of memory by its name in `/proc`: now, or the most so far.
    fn memory(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a line");
        line.trim().trim_end_matches("kB").trim().parse().expect("a number")
    }
}

const COMPLETIONS: &str = "/v1/completions";
const CHAT: &str = "/v1/chat/completions";

#[tokio::test]
async fn the_model_is_served() {
    if !has_model() {
        return;
    }
    let server = Server::start(&["--endless", "--name", "small"]);
    let body = json!({
        "model": "small", "messages": [{ "role": "user", "content": "What is the capital of France?" }],
        "temperature": 0, "max_tokens": 8, "endless": { "window": 100 },
    });
    let answer = server.post(CHAT, body.to_string()).await.expect("an answer");
    assert_eq!(answer.status(), 200);
    let json: Value = answer.json().await.expect("JSON");
    let choice = &json["choices"][0];
    assert!(choice["message"]["content"].as_str().is_some_and(|text| text.contains("Paris")), "{json}");
    assert_eq!((&choice["finish_reason"], &json["model"]), (&"stop".into(), &"small".into()));
}

/// Bodies that are as large as may be, or ask for as much: the program takes at most a fifth more memory for them.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn memory_is_bounded_beside_hostile_clients() {
    if !has_model() {
        return;
    }
    let server = Server::start(&[]);
    let first = json!({ "prompt": "Once upon a time", "max_tokens": 16, "n": 4 });
    server.post(COMPLETIONS, first.to_string()).await.expect("an answer").bytes().await.expect("a text");
    let of_model = server.memory("VmRSS:");
    let message = |content: String| json!({ "messages": [{ "role": "user", "content": content }], "max_tokens": 1 });
    let many = vec![json!({ "role": "user", "content": "" }); 100_000];
    let stops = |stop: Vec<String>| json!({ "prompt": vec!["a"; 8], "n": 4, "max_tokens": 1, "stop": stop });
    let hostile = [
        (COMPLETIONS, json!({ "prompt": "1".repeat(4_000_000) }).to_string()),
        (COMPLETIONS, json!({ "prompt": "a".repeat(600_000) }).to_string()),
        (COMPLETIONS, json!({ "prompt": vec!["a"; 128], "n": 64, "stop": "x".repeat(1_000_000) }).to_string()),
        (COMPLETIONS, stops(vec!["x".repeat(200_000); 16]).to_string()),
        (COMPLETIONS, json!({ "prompt": vec![1; 1_900_000] }).to_string()),
        (COMPLETIONS, format!("{{\"prompt\": [{}[]]}}", "[],".repeat(1_300_000))),
        (COMPLETIONS, format!("{{{}\"prompt\": 1}}", "\"a\": 1,".repeat(500_000))),
        (COMPLETIONS, format!("{{\"metadata\": [{}1], \"prompt\": \"a\", \"max_tokens\": 1}}", "1,".repeat(1_900_000))),
        (COMPLETIONS, json!({ "prompt": "a", "max_tokens": 1, "allowed_token_ids": vec![5; 800_000] }).to_string()),
        (COMPLETIONS, json!({ "prompt": "a", "max_tokens": 1, "stop_token_ids": vec![5; 800_000] }).to_string()),
        (COMPLETIONS, json!({ "prompt": "a", "max_tokens": 1, "cache_salt": "s".repeat(3_900_000) }).to_string()),
        (COMPLETIONS, "[".repeat(4_000_000)),
        (CHAT, message("<|im_end|>".repeat(50_000)).to_string()),
        (CHAT, message("1".repeat(4_000_000)).to_string()),
        (CHAT, json!({ "messages": many }).to_string()),
    ];
    for _ in 0..5 {
        let asked = hostile.iter().map(|(path, body)| server.post(path, body.clone()));
        for answer in join_all(asked).await {
            // a body that is refused before it has come resets the connection at times
            let status = answer.map(|answer| answer.status().as_u16());
            assert!(status.as_ref().map_or(true, |status| *status < 500 || *status == 503), "{status:?}");
        }
    }
    let most = server.memory("VmHWM:");
    assert!(most * 10 <= of_model * 12, "{most} KiB of {of_model}");
}
