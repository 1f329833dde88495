//! Clients that mean no good: the server stays there for the others, and its memory is bounded.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use generate::serve::Limits;
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{sleep, timeout},
};

use crate::server::{Server, Setup};

const COMPLETIONS: &str = "/v1/completions";

/// Limits whose times a test can wait for.
fn short() -> Limits {
    let [header_timeout, body_timeout, write_timeout] = [300, 500, 500].map(Duration::from_millis);
    Limits { header_timeout, body_timeout, write_timeout, ..Limits::default() }
}

async fn start(limits: Limits) -> Server {
    Server::start(Setup { limits, ..Setup::default() }).await
}

impl Server {
    /// A connection that has sent something.
    async fn raw(&self, said: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.expect("a connection");
        // the server may have closed it already
        let _ = stream.write_all(said).await;
        stream
    }

    /// What the server says to some bytes, until it closes the connection.
    async fn said(&self, said: &[u8]) -> String {
        all(self.raw(said).await).await
    }

    /// The health of the server, over a new connection, within a second.
    async fn is_healthy(&self) {
        let begin = Instant::now();
        let answer = self.said(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());
    }
}

/// What the server says until it closes the connection, which it does within ten seconds.
async fn all(mut stream: TcpStream) -> String {
    let mut said = Vec::new();
    // a connection that is reset has said what it has said
    let _ = timeout(Duration::from_secs(10), stream.read_to_end(&mut said)).await.expect("the server closes it");
    String::from_utf8_lossy(&said).into_owned()
}

fn post(body: &str) -> String {
    format!(
        "POST {COMPLETIONS} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n\
         {body}",
        body.len()
    )
}

#[tokio::test]
async fn silent_connections_end() {
    let server = start(short()).await;
    let begin = Instant::now();
    let head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    let nothing = server.raw(b"").await;
    let half = server.raw(b"GET /health HT").await;
    let between = server.raw(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    let body = server.raw(&[&head[..], b"Content-Length: 10\r\n\r\n{"].concat()).await;
    let chunks = server.raw(&[&head[..], b"Transfer-Encoding: chunked\r\n\r\n2\r\n{ \r\n"].concat()).await;
    assert_eq!(all(nothing).await, "");
    all(half).await;
    assert!(all(between).await.starts_with("HTTP/1.1 200"));
    for stream in [body, chunks] {
        let answer = all(stream).await;
        assert!(
            answer.starts_with("HTTP/1.1 408") && answer.contains("the body did not come within 0.5 s"),
            "{answer}"
        );
    }
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    server.is_healthy().await;
}

/// A byte now and then does not make a body late for ever.
#[tokio::test]
async fn slow_bodies_and_headers_end() {
    let server = start(short()).await;
    for head in ["GET /health HTTP/1.1\r\n", post("").trim_end().replace(": 0", ": 9999").as_str()] {
        let mut stream = server.raw(head.as_bytes()).await;
        if head.starts_with("POST") {
            stream.write_all(b"\r\n\r\n").await.expect("written");
        }
        let begin = Instant::now();
        while stream.write_all(b"x").await.is_ok() && begin.elapsed() < Duration::from_secs(5) {
            sleep(Duration::from_millis(50)).await;
        }
        assert!(begin.elapsed() < Duration::from_secs(3), "{head}: {:?}", begin.elapsed());
    }
}

#[tokio::test]
async fn idle_connections_keep_nobody_out() {
    let server = start(Limits { connections: 16, ..Limits::default() }).await;
    let mut idle = Vec::new();
    for _ in 0..100 {
        idle.push(server.raw(b"").await);
        // headers that are there, and a body that is not
        idle.push(server.raw(post("").replace(": 0", ": 10").as_bytes()).await);
        if idle.len() % 20 == 0 {
            server.is_healthy().await;
        }
    }
    let answer = server.ok(COMPLETIONS, json!({ "prompt": "a$", "temperature": 0 })).await;
    assert_eq!(answer["choices"][0]["text"], "a");
    server.is_healthy().await;
}

/// As many streams as there may be leave room for others' health.
#[tokio::test]
async fn busy_connections_leave_room_for_health() {
    let limits = Limits { connections: 16, ..Limits::default() };
    let server = Server::start(Setup { limits, step: Duration::from_millis(20), ..Setup::default() }).await;
    let body = json!({ "prompt": "abc", "max_tokens": 300, "temperature": 0, "stream": true });
    let streams: Vec<_> = join_all((0..14).map(|_| server.send(COMPLETIONS, &body))).await;
    assert!(streams.iter().all(|stream| stream.status() == StatusCode::OK));
    let (status, answer) = server.post(COMPLETIONS, body).await;
    assert_eq!((status.as_u16(), &answer["error"]["code"]), (503, &json!("too_many_connections")), "{answer}");
    for _ in 0..20 {
        server.is_healthy().await;
    }
    drop(streams);
    server.drained().await;
}

#[tokio::test]
async fn a_client_that_reads_nothing_is_cut_off() {
    let setup = Setup { limits: short(), endless: true, max_unread: 64, pages: 1024, ..Setup::default() };
    let server = Server::start(setup).await;
    let body = json!({
        "prompt": "abc", "max_tokens": 10_000_000, "temperature": 0, "stream": true, "ignore_eos": true,
        "endless": { "window": 40 },
    });
    let stream = server.raw(post(&body.to_string()).as_bytes()).await;
    // it is read until nothing is read any more
    let begin = Instant::now();
    loop {
        sleep(Duration::from_millis(50)).await;
        let stats = server.engine.stats();
        if stats.ended == 1 {
            break;
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "{stats:?}");
    }
    server.drained().await;
    drop(stream);
}

#[tokio::test]
async fn heads_that_are_no_requests() {
    let server = start(short()).await;
    let long = "x".repeat(200 << 10);
    let many: String = (0..200).map(|index| format!("X-{index}: 1\r\n")).collect();
    for (said, status) in [
        ("\0\u{1}\u{2}\r\n\r\n".to_owned(), Some("400")),
        ("GET /health\r\n\r\n".to_owned(), Some("400")),
        (format!("GET /{long} HTTP/1.1\r\n\r\n"), None),
        (format!("GET /health HTTP/1.1\r\nHost: localhost\r\nX: {long}\r\n\r\n"), Some("431")),
        (format!("GET /health HTTP/1.1\r\nHost: localhost\r\n{many}\r\n"), Some("431")),
        ("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n".to_owned(), Some("400")),
        ("GET /health HTTP/1.0\r\n\r\n".to_owned(), Some("200")),
        ("GET /health HTTP/1.0\r\nHost: localhost:1\r\n\r\n".to_owned(), Some("200")),
    ] {
        let answer = server.said(said.as_bytes()).await;
        let is_right = status.is_none_or(|status| answer.get(9..12) == Some(status));
        assert!(is_right, "{status:?}: {:.100}: {answer:.200}", said);
        server.is_healthy().await;
    }
    // requests behind each other
    let health = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let answer = server.said(health.repeat(100).as_bytes()).await;
    assert_eq!(answer.matches("HTTP/1.1 200").count(), 100);
    // a body that ends too early, and chunks that are none
    let end = server.said(&[post("{}").as_bytes(), b"GARBAGE\r\n\r\n"].concat()).await;
    assert!(end.contains("missing field `prompt`"), "{end}");
    let chunked = post("").replace("Content-Length: 0", "Transfer-Encoding: chunked");
    let answer = server.said(format!("{chunked}ZZ\r\n").as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
}

#[tokio::test]
async fn a_body_without_end_is_too_large() {
    let server = start(Limits::default()).await;
    let chunked = post("").replace("Content-Length: 0", "Transfer-Encoding: chunked");
    let mut stream = server.raw(chunked.as_bytes()).await;
    let chunk = format!("1000\r\n{}\r\n", " ".repeat(4096));
    let mut sent = 0;
    while stream.write_all(chunk.as_bytes()).await.is_ok() && sent < 100 << 20 {
        sent += 4096;
    }
    assert!(sent < 20 << 20, "{sent} bytes were taken");
    // a length that is too large is refused before it comes
    let answer = server.said(post("").replace(": 0", ": 99999999").as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 413") && answer.contains("which is 65536 bytes"), "{answer}");
}

#[tokio::test]
async fn choices_and_memory_are_counted_before_they_are_taken() {
    let limits = Limits { memory: 8 << 20, ..Limits::default() };
    let server = Server::start(Setup { max_body: 4 << 20, limits, ..Setup::default() }).await;
    let ask = |prompts: usize, n: usize, stop: usize, more: Value| {
        let mut body = json!({ "prompt": vec!["a"; prompts], "n": n, "stop": "x".repeat(stop), "max_tokens": 1 });
        body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        body
    };
    // 64 prompts of 16 choices share one stop string
    let answer = server.ok(COMPLETIONS, ask(64, 16, 100_000, json!({}))).await;
    assert_eq!(answer["choices"].as_array().map(Vec::len), Some(1024));
    for (body, most) in [
        (ask(128, 8, 10, json!({ "max_tokens": 500 })), "a request may take 2048 KiB"),
        (ask(64, 16, 10, json!({ "max_tokens": 400, "logprobs": 5 })), "a request may take 2048 KiB"),
        (ask(128, 64, 10, json!({})), "8192 choices, and a request may have 1024"),
        (ask(41, 25, 10, json!({})), "1025 choices, and a request may have 1024"),
    ] {
        let (status, answer) = server.post(COMPLETIONS, body).await;
        assert_eq!((status.as_u16(), &answer["error"]["code"]), (400, &json!("request_too_large")), "{answer}");
        let message = answer["error"]["message"].as_str().expect("a message");
        assert!(message.contains(" prompts of ") && message.contains(most), "{message}");
    }
    // bodies that all come at once have to share the memory
    let open = join_all((0..8).map(|_| async {
        let mut stream = server.raw(post("").replace(": 0", ": 1000000").as_bytes()).await;
        let _ = stream.write_all(&vec![b' '; 900_000]).await;
        stream
    }));
    let open = open.await;
    sleep(Duration::from_millis(200)).await;
    let (status, answer) = server.post(COMPLETIONS, ask(1, 1, 500_000, json!({}))).await;
    assert_eq!((status.as_u16(), &answer["error"]["code"]), (503, &json!("out_of_memory")), "{answer}");
    server.is_healthy().await;
    drop(open);
    sleep(Duration::from_millis(200)).await;
    server.ok(COMPLETIONS, ask(1, 1, 500_000, json!({}))).await;
}

#[tokio::test]
async fn a_server_of_this_machine_is_called_so() {
    let server = start(Limits::default()).await;
    let get = |host: &str, target: &str| format!("GET {target} HTTP/1.1\r\n{host}Connection: close\r\n\r\n");
    for host in ["localhost", "LOCALHOST.:80", "127.0.0.1:9", "127.8.9.1", "[::1]", "a.localhost"] {
        let answer = server.said(get(&format!("Host: {host}\r\n"), "/v1/models").as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{host}: {answer}");
    }
    for (host, target) in [
        ("Host: evil.example\r\n", "/v1/models"),
        ("Host: evil.example\r\n", "/health"),
        ("Host: localhost.evil.example\r\n", "/v1/models"),
        ("Host: 127.0.0.1.evil.example\r\n", "/v1/models"),
        ("Host: 10.0.0.1\r\n", "/v1/models"),
        ("Host: 0.0.0.0\r\n", "/v1/models"),
        ("Host: localhost\r\n", "http://evil.example/v1/models"),
        ("Host: \r\n", "/v1/models"),
        ("Host: \u{e9}\r\n", "/v1/models"),
    ] {
        let answer = server.said(get(host, target).as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("host_not_allowed"), "{host}: {answer}");
    }
    let answer = server.said(get("Host: localhost\r\nHost: evil.example\r\n", "/v1/models").as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
}

#[tokio::test]
async fn a_key_is_asked_for() {
    let server = Server::start(Setup { api_key: Some("secret"), ..Setup::default() }).await;
    let body = json!({ "prompt": "a$", "temperature": 0 });
    for key in [None, Some("Bearer wrong"), Some("Bearer "), Some("Basic secret"), Some("secret")] {
        let mut request = server.client.post(server.url(COMPLETIONS)).json(&body);
        if let Some(key) = key {
            request = request.header("authorization", key);
        }
        let answer = request.send().await.expect("an answer");
        assert_eq!((answer.status().as_u16(), &answer.headers()["www-authenticate"] == "Bearer"), (401, true));
        let answer: Value = answer.json().await.expect("JSON");
        assert_eq!(answer["error"]["code"], "invalid_api_key");
        assert_eq!(answer["error"]["type"], "authentication_error");
    }
    let request = server.client.post(server.url(COMPLETIONS)).json(&body).bearer_auth("secret");
    assert_eq!(request.send().await.expect("an answer").status(), StatusCode::OK);
    for (path, status) in [("/health", 200), ("/", 200), ("/metrics", 401), ("/v1/models", 401), ("/nowhere", 401)] {
        assert_eq!(server.get(path).await.status().as_u16(), status, "{path}");
    }
}

/// Two hundred requests of many kinds: each is answered with an error or a text, and the server is there throughout.
#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_hostile_requests() {
    let setup = Setup { max_body: 1 << 20, pages: 128, ..Setup::default() };
    let server = Server::start(setup).await;
    let deep = |open: &str, close: &str, depth: usize| format!("{}1{}", open.repeat(depth), close.repeat(depth));
    let mut bodies = vec![
        String::new(),
        "nul".into(),
        deep("[", "]", 100_000),
        deep("{\"a\":", "}", 100_000),
        format!("{{\"prompt\": {}}}", deep("[", "]", 60)),
        format!("{{\"metadata\": {}}}", deep("[", "]", 1000)),
        format!("{{\"prompt\": \"a\", \"logit_bias\": {{{}\"9\": 1}}}}", "\"1\": 1,".repeat(5000)),
        format!("{{\"prompt\": [{}1]}}", "1,".repeat(400_000)),
        format!("{{\"prompt\": [{}[]]}}", "[],".repeat(200_000)),
        format!("{{\"prompt\": \"a\", \"stop\": [{}\"\"]}}", "\"a\",".repeat(100_000)),
        format!("{{\"prompt\": \"{}\"}}", "1".repeat(1_000_000)),
        format!("{{\"prompt\": \"{}\"}}", "\\u0000".repeat(100_000)),
        format!("{{{}\"prompt\": 1}}", "\"a\": 1,".repeat(100_000)),
        format!("{{\"{}\": 1}}", "a".repeat(500_000)),
        format!("{{\"model\": \"{}\", \"prompt\": \"a\"}}", "m".repeat(500_000)),
        format!("{{\"messages\": [{}{{}}]}}", "{\"role\":\"user\",\"content\":\"\"},".repeat(20_000)),
    ];
    for value in
        ["1e999", "-1e999", "NaN", "Infinity", "1e308", "-0.0", "18446744073709551616", "\"\\ud800\"", "{}", "[]"]
    {
        for name in
            ["temperature", "top_p", "top_k", "n", "max_tokens", "seed", "logprobs", "stop", "prompt", "endless"]
        {
            bodies.push(
                format!("{{\"prompt\": \"a$\", \"max_tokens\": 2, \"{name}\": {value}}}")
                    .replace("\"max_tokens\": 2, \"max_tokens\"", "\"max_tokens\""),
            );
        }
    }
    for n in ["0", "-1", "65", "1e9", "9223372036854775807"] {
        bodies.push(format!("{{\"prompt\": [\"a$\", \"b$\"], \"n\": {n}, \"logprobs\": 5, \"echo\": true}}"));
    }
    let chats = bodies
        .iter()
        .map(|body| body.replace("\"prompt\": \"a$\"", "\"messages\": [{\"role\": \"user\", \"content\": \"a$\"}]"));
    let chats: Vec<String> = chats.collect();
    let count = bodies.len() + chats.len();
    assert!(count >= 200, "{count}");
    let ask = |path: &'static str, body: String| {
        let server = &server;
        async move {
            let request = server.client.post(server.url(path)).header("content-type", "application/json");
            let answer = request.body(body.clone()).send().await.expect("an answer");
            let status = answer.status();
            let text = answer.text().await.expect("a text");
            assert!(
                status.is_success() || status.is_client_error() || status == 503,
                "{body:.200}: {status} {text:.500}"
            );
            assert!(text.len() < 20_000, "{body:.200}: {} bytes", text.len());
        }
    };
    for group in bodies.chunks(25).zip(chats.chunks(25)) {
        let asked = group.0.iter().map(|body| ask(COMPLETIONS, body.clone()));
        join_all(asked).await;
        join_all(group.1.iter().map(|body| ask("/v1/chat/completions", body.clone()))).await;
        server.is_healthy().await;
    }
    server.drained().await;
    assert_eq!(server.engine.stats().failed, 0);
}
