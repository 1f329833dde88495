//! What all handlers share.

use std::sync::Arc;

use tokio::sync::Semaphore;

use super::{
    api_key::ApiKey,
    failure::Failure,
    limits::{Limits, Memory},
    metrics::Metrics,
    pace::Pace,
    text::Text,
};
use crate::engine::{EngineHandle, Refused};

/// What a server says of itself, and what it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServeOptions {
    /// The name of the model. Requests may leave it out; another name is an error.
    pub model: String,
    /// Bytes of a request's body, at most.
    pub max_body: usize,
    /// Tokens to guess ahead by prompt lookup, for all requests.
    pub speculate: usize,
    /// The key that clients must send; `None` for none.
    pub api_key: Option<ApiKey>,
    /// What clients may take.
    pub limits: Limits,
}

impl Default for ServeOptions {
    /// SmolLM2, bodies of 4 MiB, no speculation, no key, [`Limits::default`].
    fn default() -> Self {
        ServeOptions {
            model: "SmolLM2-135M-Instruct".into(),
            max_body: 4 << 20,
            speculate: 0,
            api_key: None,
            limits: Limits::default(),
        }
    }
}

/// Requests that are prepared at a time.
const PREPARING: usize = 2;

/// An engine, its tokenizer, and what is counted.
pub(crate) struct App {
    pub(crate) engine: EngineHandle,
    pub(crate) text: Arc<dyn Text>,
    pub(crate) options: ServeOptions,
    pub(crate) metrics: Metrics,
    pub(crate) pace: Pace,
    pub(crate) memory: Memory,
    /// Whether the server listens for this machine alone.
    pub(crate) is_loopback: bool,
    /// Requests that are prepared at a time: a long text takes much memory while it is tokenized.
    preparing: Semaphore,
    /// When the server began, in seconds since 1970.
    pub(crate) created: u64,
}

impl App {
    pub(crate) fn new(
        engine: EngineHandle,
        text: Arc<dyn Text>,
        options: ServeOptions,
        is_loopback: bool,
    ) -> Arc<Self> {
        Arc::new(App {
            metrics: Metrics::new(engine.clone()),
            engine,
            text,
            pace: Pace::default(),
            memory: Memory::new(options.limits.memory),
            is_loopback,
            preparing: Semaphore::new(PREPARING),
            created: now(),
            options,
        })
    }

    /// Tokens that a prompt may have.
    pub(crate) fn prompt_tokens(&self) -> usize {
        self.engine.model_limits().context - 1
    }

    /// Tokens that may follow a prompt: the rest of the context, and of the pool.
    pub(crate) fn tokens_left(&self, prompt: usize) -> usize {
        let pages = self.engine.pages();
        let pool = pages.count() * pages.page_size();
        // the engine refuses a prompt that leaves no room
        self.engine.model_limits().context.min(pool).saturating_sub(prompt).max(1)
    }

    /// What a client is told whose request was refused. If the queue is full: when it will have been served.
    pub(crate) fn refused(&self, refused: Refused) -> Failure {
        let retry_after = match refused {
            Refused::Busy { waiting } => Some(self.pace.seconds(waiting, self.engine.stats().running)),
            _ => None,
        };
        let failure = Failure::from(refused);
        Failure { retry_after: retry_after.unwrap_or(failure.retry_after), ..failure }
    }

    /// Runs work that may take a while, such as tokenizing a long text, beside the server's threads.
    pub(crate) async fn aside<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&App) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        // it is never closed
        let _turn = self.preparing.acquire().await;
        let app = Arc::clone(self);
        // a panic is told to the client
        let done = tokio::task::spawn_blocking(move || work(&app)).await;
        done.unwrap_or_else(|error| Err(Failure::failed(format!("the request could not be prepared: {error}"))))
    }
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs())
}
