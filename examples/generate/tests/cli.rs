//! The program, from the command line to the model and back.

use std::{
    io::{BufRead, BufReader, Read as _, Write as _},
    net::TcpStream,
    process::{Child, Command, Output, Stdio},
};

use attn_needs::{Need, has};
use generate::model::fetch::model_file;
use serde_json::Value;

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
        (&["a", "--model", "/nowhere.gguf"], 1, "/nowhere.gguf"),
        (&["a", "--page-size", "0"], 1, "--page-size"),
        (&["--serve", "--addr", "192.0.2.1:80"], 1, "cannot listen on 192.0.2.1:80"),
    ];
    if has_model() {
        cases.push((&["--bench", "--rate", "0"], 1, "positive"));
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

#[test]
fn a_trace_is_measured() {
    if !has_model() {
        return;
    }
    let words = ["--bench", "--trace", "fixed", "--input", "20", "--output", "3", "--requests", "3", "--warmup", "0"];
    let output = run(&[&words[..], &["--shared-prefix", "32", "--json"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let results = &json["results"];
    assert_eq!((&results["completed"], &results["output_tokens"]), (&3.into(), &9.into()));
    assert_eq!(results["itl_ms"]["count"], 6);
    assert_eq!((&json["trace"]["shared_prefix"], &json["model"]["device"]), (&32.into(), &"cpu".into()));
}

/// Ends with the test, whatever happens.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_model_is_served() {
    if !has_model() {
        return;
    }
    let words = ["--serve", "--endless", "--addr", "127.0.0.1:0", "--name", "small"];
    let mut server = Ends(generate(&words).stdout(Stdio::piped()).spawn().expect("a process"));
    let mut line = String::new();
    BufReader::new(server.0.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
    let (_, address) = line.trim().trim_end_matches('/').split_once("http://").expect("an address");
    let body = r#"{"model":"small","messages":[{"role":"user","content":"What is the capital of France?"}],
        "temperature":0,"max_tokens":8,"endless":{"window":100}}"#;
    let mut stream = TcpStream::connect(address).expect("a connection");
    let request = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a body");
    assert!(head.starts_with("HTTP/1.1 200"), "{answer}");
    let json: Value = serde_json::from_str(body).expect("JSON");
    let choice = &json["choices"][0];
    assert!(choice["message"]["content"].as_str().is_some_and(|text| text.contains("Paris")), "{json}");
    assert_eq!((&choice["finish_reason"], &json["model"]), (&"stop".into(), &"small".into()));
}
