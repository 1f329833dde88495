//! OpenAI's completions over HTTP, with a chat page.
//!
//! | path | what |
//! |---|---|
//! | `POST /v1/completions`, `POST /v1/chat/completions` | text, whole or as server-sent events |
//! | `GET /v1/models`, `GET /health` | what is served, and whether it is |
//! | `GET /metrics` | counts and latencies for Prometheus |
//! | `GET /` | a page to chat with the model |
//!
//! A parameter that is not supported is an error. A client that goes away cancels its request. If the queue is full,
//! `Retry-After` says when it will have been served, as far as the last texts tell.
//!
//! Beside OpenAI's parameters there are vLLM's (`top_k`, `min_p`, `repetition_penalty`, `ignore_eos`, `stop_token_ids`,
//! `allowed_token_ids`, `cache_salt`), and one of our own: `"endless": {"sinks": 4, "window": 1020}` makes a text that
//! may exceed the context of the model and sees the keys of its first and of its last tokens (StreamingLLM). Both
//! numbers may be left out. `max_tokens` ends it, or the client. The model must be started for it (`--endless`).
//!
//! ```text
//! routes ─▶ completions, chat ─▶ body, parameters ─▶ generation ─▶ engine
//!                             └▶ answer ─▶ choice ─▶ stop
//! ```

mod answer;
mod app;
mod body;
mod chat;
mod choice;
mod completions;
mod failure;
mod generation;
mod logprob;
mod metrics;
mod pace;
mod parameters;
mod routes;
mod stamp;
mod stop;
mod text;

pub use app::ServeOptions;
pub use text::Text;

use std::{io, pin::pin, sync::Arc, time::Duration};

use tokio::{net::TcpListener, sync::oneshot};

use crate::engine::EngineHandle;
use app::App;

/// Serves until `shutdown` is done. Then no request is taken any more, and those that run have `grace` to end; what is
/// left is cancelled, and its clients are told so. The engine has ended when this returns.
///
/// # Errors
///
/// Those of the listener.
pub async fn serve(
    listener: TcpListener,
    engine: EngineHandle,
    text: Arc<dyn Text>,
    options: ServeOptions,
    shutdown: impl Future<Output = ()> + Send + 'static,
    grace: Duration,
) -> io::Result<()> {
    let app = App::new(engine.clone(), text, options);
    let (draining, drained) = oneshot::channel();
    let signal = async move {
        shutdown.await;
        tracing::info!("no more requests are taken; those that run have {} s", grace.as_secs_f64());
        // it blocks until the requests are done, while their answers are still being sent
        let _ = draining.send(tokio::task::spawn_blocking(move || engine.shutdown(grace)));
    };
    // the engine has been dropped, with its cache
    let ended = async {
        match drained.await {
            Ok(shutdown) => drop(shutdown.await), // its thread catches panics
            Err(_) => std::future::pending().await,
        }
    };
    let server = axum::serve(listener, routes::routes(app)).with_graceful_shutdown(signal).into_future();
    let (mut server, mut ended) = (pin!(server), pin!(ended));
    tokio::select! {
        result = &mut server => {
            result?;
            ended.await;
            Ok(())
        }
        // clients that do not read their answers do not keep the server
        () = &mut ended => tokio::time::timeout(STALLED_CLIENTS, server).await.unwrap_or(Ok(())),
    }
}

/// How long answers may take to be read after the engine has ended.
const STALLED_CLIENTS: Duration = Duration::from_secs(2);
