//! The program with its real model, beside clients that mean no good. `/health` answers within a second throughout, and
//! the memory stays within 1.2 of what the program takes after its first text.
//!
//! ```sh
//! ulimit -n 4096  # files of the clients; the server has 512
//! GENERATE_SOAK_SECONDS=300 cargo test --release -p generate --test serve_soak -- --ignored --nocapture
//! ```

#![cfg(target_os = "linux")]
#![allow(clippy::print_stderr)]

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::{SocketAddr, TcpStream},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use attn_needs::{Need, has};
use futures_util::{StreamExt, future::join_all};
use generate::model::fetch::model_file;
use reqwest::Client;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

/// The program, which ends with the test.
struct Program {
    child: Child,
    address: SocketAddr,
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Program {
    fn start() -> Self {
        let words =
            format!("ulimit -n 512; exec {} --serve --device cpu --addr 127.0.0.1:0", env!("CARGO_BIN_EXE_generate"));
        let mut child = Command::new("sh").args(["-c", &words]).stdout(Stdio::piped()).spawn().expect("a process");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
        let (_, address) = line.trim().trim_end_matches('/').split_once("http://").expect("an address");
        Program { child, address: address.parse().expect("an address") }
    }

    /// MiB of memory now, and the most so far.
    fn memory(&self) -> [u64; 2] {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("it runs");
        ["VmRSS:", "VmHWM:"].map(|name| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a line");
            line.trim().trim_end_matches("kB").trim().parse::<u64>().expect("a number") / 1024
        })
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

/// Asks for health over new connections, again and again.
struct Health {
    worst: AtomicU64,
    asked: AtomicU64,
    failed: AtomicU64,
    ends: AtomicBool,
}

impl Health {
    async fn watch(self: Arc<Self>, url: String) {
        while !self.ends.load(Ordering::Relaxed) {
            let client = Client::builder().pool_max_idle_per_host(0).build().expect("a client");
            let begin = Instant::now();
            let answer = timeout(Duration::from_secs(10), client.get(&url).send()).await;
            let is_well = matches!(&answer, Ok(Ok(answer)) if answer.status() == 200);
            self.worst.fetch_max(begin.elapsed().as_millis() as u64, Ordering::Relaxed);
            self.asked.fetch_add(1, Ordering::Relaxed);
            if !is_well {
                eprintln!("no health: {answer:?}");
                self.failed.fetch_add(1, Ordering::Relaxed);
            }
            sleep(Duration::from_millis(50)).await;
        }
    }
}

fn hostile() -> Vec<(&'static str, String)> {
    let digits = |count: usize| json!({ "prompt": "1".repeat(count) }).to_string();
    let mut bodies = Vec::new();
    for round in 0..10 {
        bodies.extend([
            digits(4_000_000 - round),
            digits(600_000),
            json!({ "prompt": "a".repeat(600_000) }).to_string(),
            json!({ "prompt": " ".repeat(600_000) }).to_string(),
            json!({ "prompt": vec!["a"; 128], "n": 64, "max_tokens": 500, "stop": "x".repeat(1_000_000) }).to_string(),
            json!({ "prompt": vec!["a"; 8], "n": 4, "max_tokens": 1, "stop": vec!["x".repeat(200_000); 16] })
                .to_string(),
            json!({ "prompt": vec![1; 1_900_000] }).to_string(),
            format!("{{\"prompt\": [{}[]]}}", "[],".repeat(1_300_000)),
            format!("{{{}\"prompt\": 1}}", "\"a\": 1,".repeat(500_000)),
            format!("{{\"metadata\": [{}1], \"prompt\": \"a\", \"max_tokens\": 1}}", "1,".repeat(1_900_000)),
            json!({ "prompt": "a", "max_tokens": 1, "allowed_token_ids": vec![5; 800_000] }).to_string(),
            json!({ "prompt": "a", "max_tokens": 1, "stop_token_ids": vec![5; 800_000] }).to_string(),
            json!({ "prompt": "a", "max_tokens": 1, "cache_salt": "s".repeat(3_900_000) }).to_string(),
            "[".repeat(4_000_000),
        ]);
    }
    // a thousand choices that are served, and share one stop string
    bodies
        .push(json!({ "prompt": vec!["a"; 64], "n": 16, "max_tokens": 1, "stop": "x".repeat(1_000_000) }).to_string());
    let mut all: Vec<(&str, String)> = bodies.into_iter().map(|body| ("/v1/completions", body)).collect();
    for round in 0..20 {
        let message =
            |content: String| json!({ "messages": [{ "role": "user", "content": content }], "max_tokens": 1 });
        all.extend([
            ("/v1/chat/completions", message("<|im_end|>".repeat(50_000 + round)).to_string()),
            ("/v1/chat/completions", message("1".repeat(4_000_000)).to_string()),
            (
                "/v1/chat/completions",
                json!({ "messages": vec![json!({ "role": "user", "content": "" }); 100_000] }).to_string(),
            ),
        ]);
    }
    all
}

/// One of the 64 clients: a text whole, a stream, or a stream that it leaves.
async fn one(client: &Client, program: &Program, round: u64) -> Result<(), String> {
    let stream = !round.is_multiple_of(3);
    let body = json!({
        "messages": [{ "role": "user", "content": format!("Tell me of the number {round}.") }],
        "max_tokens": 16 + round % 32, "stream": stream, "seed": round,
    });
    let answer = client.post(program.url("/v1/chat/completions")).json(&body).send().await;
    let answer = answer.map_err(|error| error.to_string())?;
    if answer.status() != 200 {
        return Err(format!("{}: {}", answer.status(), answer.text().await.unwrap_or_default()));
    }
    if !stream {
        let whole: Value = answer.json().await.map_err(|error| error.to_string())?;
        return whole["choices"][0]["message"]["content"].as_str().map(drop).ok_or_else(|| whole.to_string());
    }
    let mut parts = answer.bytes_stream();
    let mut seen = 0;
    while let Some(part) = parts.next().await {
        part.map_err(|error| error.to_string())?;
        seen += 1;
        if round % 3 == 2 && seen > 5 {
            return Ok(()); // it goes away
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it takes minutes, and more files than most shells allow"]
async fn the_server_stays_there() {
    if !has(Need::Model, model_file(None)) {
        return;
    }
    let seconds = std::env::var("GENERATE_SOAK_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(300);
    let program = Arc::new(Program::start());
    let client = Client::new();
    let first = json!({ "prompt": "Once upon a time", "max_tokens": 16, "n": 4 });
    let answer = client.post(program.url("/v1/completions")).json(&first).send().await.expect("an answer");
    assert_eq!(answer.status(), 200);
    answer.bytes().await.expect("a text");
    let [of_model, _] = program.memory();
    let health = Arc::new(Health { worst: 0.into(), asked: 0.into(), failed: 0.into(), ends: false.into() });
    let watch = tokio::spawn(Arc::clone(&health).watch(program.url("/health")));
    let tell = |what: &str| {
        let ([now, most], worst) = (program.memory(), health.worst.load(Ordering::Relaxed));
        eprintln!(
            "{what}: {now} MiB now, {most} MiB at most, {of_model} MiB after the first text; health {worst} ms at most"
        );
    };

    let bodies = hostile();
    assert!(bodies.len() >= 200, "{}", bodies.len());
    for group in bodies.chunks(8) {
        let asked = group.iter().map(|(path, body)| {
            let request = client.post(program.url(path)).header("content-type", "application/json").body(body.clone());
            async move {
                let answer = request.send().await.map(|answer| answer.status().as_u16());
                // a body that is refused before it has come resets the connection at times
                assert!(answer.as_ref().map_or(true, |status| *status < 500 || *status == 503), "{answer:?}");
            }
        });
        join_all(asked).await;
    }
    tell("200 hostile requests");

    let mut idle = Vec::new();
    for index in 0..1000 {
        let stream = TcpStream::connect(program.address);
        let mut stream = stream.expect("a connection; does `ulimit -n` allow 4096 files?");
        if index % 3 == 1 {
            let _ = stream.write_all(b"GET /health HT");
        } else if index % 3 == 2 {
            let head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
            let _ = stream.write_all(&[&head[..], b"Content-Length: 100\r\n\r\n{"].concat());
        }
        idle.push(stream);
    }
    sleep(Duration::from_secs(5)).await;
    tell("1,000 idle connections");
    drop(idle);

    let (end, done, refused) = (Instant::now() + Duration::from_secs(seconds), AtomicU64::new(0), AtomicU64::new(0));
    let clients = (0..64u64).map(|index| {
        let (client, program, done, refused) = (&client, &*program, &done, &refused);
        async move {
            let mut round = index;
            while Instant::now() < end {
                match one(client, program, round).await {
                    Ok(()) => done.fetch_add(1, Ordering::Relaxed),
                    Err(why) => {
                        eprintln!("client {index}: {why}");
                        refused.fetch_add(1, Ordering::Relaxed)
                    }
                };
                round += 64;
            }
        }
    });
    join_all(clients).await;
    tell("64 clients");
    let (done, refused) = (done.into_inner(), refused.into_inner());
    health.ends.store(true, Ordering::Relaxed);
    watch.await.expect("no panic");
    let (asked, failed) = (health.asked.load(Ordering::Relaxed), health.failed.load(Ordering::Relaxed));
    eprintln!("{done} texts, {refused} refused; health was asked {asked} times, and failed {failed} times");
    assert_eq!((refused, failed), (0, 0));
    assert!(health.worst.load(Ordering::Relaxed) < 1000);
    let [_, most] = program.memory();
    assert!(most * 10 <= of_model * 12, "{most} MiB of {of_model}");
}
