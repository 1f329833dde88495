//! What all handlers share.

use std::sync::Arc;

use super::{failure::Failure, metrics::Metrics, pace::Pace, text::Text};
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
}

impl Default for ServeOptions {
    /// SmolLM2, bodies of 4 MiB, no speculation.
    fn default() -> Self {
        ServeOptions { model: "SmolLM2-135M-Instruct".into(), max_body: 4 << 20, speculate: 0 }
    }
}

/// An engine, its tokenizer, and what is counted.
pub(crate) struct App {
    pub(crate) engine: EngineHandle,
    pub(crate) text: Arc<dyn Text>,
    pub(crate) options: ServeOptions,
    pub(crate) metrics: Metrics,
    pub(crate) pace: Pace,
    /// When the server began, in seconds since 1970.
    pub(crate) created: u64,
}

impl App {
    pub(crate) fn new(engine: EngineHandle, text: Arc<dyn Text>, options: ServeOptions) -> Arc<Self> {
        Arc::new(App { engine, text, options, metrics: Metrics::new(), pace: Pace::default(), created: now() })
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
        let app = Arc::clone(self);
        match tokio::task::spawn_blocking(move || work(&app)).await {
            Ok(result) => result,
            Err(error) => Err(Failure::failed(format!("the request could not be prepared: {error}"))),
        }
    }
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs())
}
