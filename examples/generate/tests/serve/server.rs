//! A server of a test, and its clients.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use attn_cache::Pages;
use generate::{
    engine::{Engine, EngineConfig, EngineHandle},
    serve::{ApiKey, Limits, ServeOptions, serve},
};
use reqwest::{Client, Response, StatusCode};
use serde_json::Value;
use tokio::{net::TcpListener, sync::oneshot, task::JoinHandle};

use crate::echo::{Bytes, Echo};

/// How a server is set up.
pub(crate) struct Setup {
    pub(crate) pages: usize,
    pub(crate) step: Duration,
    pub(crate) max_waiting: usize,
    pub(crate) max_body: usize,
    pub(crate) grace: Duration,
    /// Whether the model runs endless texts.
    pub(crate) endless: bool,
    pub(crate) api_key: Option<&'static str>,
    pub(crate) limits: Limits,
    pub(crate) max_unread: usize,
}

impl Default for Setup {
    fn default() -> Self {
        Setup {
            pages: 256,
            step: Duration::ZERO,
            max_waiting: 1024,
            max_body: 64 << 10,
            grace: Duration::from_secs(20),
            endless: false,
            api_key: None,
            limits: Limits::default(),
            max_unread: EngineConfig::default().max_unread,
        }
    }
}

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) engine: EngineHandle,
    pub(crate) client: Client,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<std::io::Result<()>>,
}

impl Server {
    pub(crate) async fn start(setup: Setup) -> Self {
        let Setup { max_waiting, max_unread, .. } = setup;
        let config = EngineConfig { max_waiting, max_unread, ..EngineConfig::default() };
        let engine = Engine::new(Echo::new(setup.pages, setup.step, setup.endless), config).expect("an engine");
        let engine = EngineHandle::spawn(engine).expect("a thread");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let options = ServeOptions {
            model: "echo".into(),
            max_body: setup.max_body,
            speculate: 0,
            api_key: setup.api_key.and_then(ApiKey::new),
            limits: setup.limits,
        };
        let (stop, stopped) = oneshot::channel();
        let shutdown = async {
            let _ = stopped.await;
        };
        let task = tokio::spawn(serve(listener, engine.clone(), Arc::new(Bytes), options, shutdown, setup.grace));
        Server { address, engine, client: Client::new(), stop: Some(stop), task }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Posts JSON, and gives the answer before its body.
    pub(crate) async fn send(&self, path: &str, body: &Value) -> Response {
        self.client.post(self.url(path)).json(body).send().await.expect("an answer")
    }

    /// Posts JSON, and gives the status and the JSON of the answer.
    pub(crate) async fn post(&self, path: &str, body: Value) -> (StatusCode, Value) {
        let response = self.send(path, &body).await;
        (response.status(), response.json().await.expect("JSON"))
    }

    /// Posts JSON that is served.
    pub(crate) async fn ok(&self, path: &str, body: Value) -> Value {
        let (status, answer) = self.post(path, body).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
        answer
    }

    /// Posts JSON with `"stream": true`, and gives all objects of the stream, which must end well.
    pub(crate) async fn stream(&self, path: &str, mut body: Value) -> Vec<Value> {
        body["stream"] = true.into();
        let response = self.send(path, &body).await;
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        events(&response.text().await.expect("a text"))
    }

    pub(crate) async fn get(&self, path: &str) -> Response {
        self.client.get(self.url(path)).send().await.expect("an answer")
    }

    /// Waits until nothing runs, and checks that all pages are free or in the prefix cache.
    pub(crate) async fn drained(&self) {
        let until = tokio::time::Instant::now() + Duration::from_secs(10);
        loop {
            let stats = self.engine.stats();
            if stats.running == 0 && stats.waiting == 0 && stats.pages.free + stats.pages.evictable == stats.pages.total
            {
                return;
            }
            assert!(tokio::time::Instant::now() < until, "requests still run: {stats:?}");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Asks the server to end, without waiting.
    pub(crate) fn shut_down(&mut self) {
        let _ = self.stop.take().expect("asked once").send(());
    }

    /// Waits until the server has ended, and checks that no page is lost.
    pub(crate) async fn ended(self) {
        let pages: Pages = self.engine.pages().clone();
        let end = tokio::time::timeout(Duration::from_secs(20), self.task).await;
        end.expect("the server ends in time").expect("no panic").expect("no error");
        assert_eq!(pages.stats().free, pages.count(), "the engine is gone, and so is its cache: {:?}", pages.stats());
    }
}

/// The objects of server-sent events. The last event is `[DONE]`.
pub(crate) fn events(text: &str) -> Vec<Value> {
    let mut data: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim).collect();
    assert_eq!(data.pop(), Some("[DONE]"), "{text}");
    data.into_iter().map(|data| serde_json::from_str(data).expect("JSON")).collect()
}
