//! OpenAI's completions over HTTP, with a chat page.
//!
//! | path | what |
//! |---|---|
//! | `POST /v1/completions`, `POST /v1/chat/completions` | text, whole or as server-sent events |
//! | `GET /v1/models`, `GET /v1/models/{id}`, `GET /health` | what is served, and whether it is |
//! | `GET /metrics` | counts and latencies for Prometheus |
//! | `GET /` | a page to chat with the model |
//!
//! A parameter that is not supported is an error; one that changes no text is not. A client that goes away cancels its
//! request. If the queue is full, `Retry-After` says when it will have been served, as far as the last texts tell. What
//! clients may take is bounded: connections, time and memory ([`Limits`]).
//!
//! Beside OpenAI's parameters there are vLLM's (`top_k`, `min_p`, `repetition_penalty`, `ignore_eos`, `stop_token_ids`,
//! `allowed_token_ids`, `cache_salt`), and one of our own: `"endless": {"sinks": 4, "window": 1020}` makes a text that
//! may exceed the context of the model and sees the keys of its first and of its last tokens (StreamingLLM). Both
//! numbers may be left out. `max_tokens` ends it, or the client. The model must be started for it (`--endless`).
//!
//! ```text
//! connections ─▶ access, routes ─▶ completions, chat ─▶ body, fields ─▶ cost, generation ─▶ engine
//!                                                   └▶ answer ─▶ choice ─▶ stop
//! ```

mod access;
mod answer;
mod api_key;
mod app;
mod body;
mod chat;
mod choice;
mod completions;
mod connections;
mod cost;
mod failure;
mod fields;
mod generation;
mod items;
mod limits;
mod logprob;
mod metrics;
mod pace;
mod parameters;
mod routes;
mod stamp;
mod stop;
mod text;

pub use api_key::ApiKey;
pub use app::ServeOptions;
pub use limits::Limits;
pub use text::Text;

use std::{io, pin::pin, sync::Arc, time::Duration};

use tokio::{net::TcpListener, sync::oneshot};

use crate::engine::EngineHandle;
use app::App;
use connections::Connections;

/// Serves until `shutdown` is done. Then no request is taken any more, and those that run have `grace` to end; what is
/// left is cancelled, and its clients are told so. The engine has ended when this returns.
///
/// # Errors
///
/// A listener without an address. What it fails to accept is logged.
pub async fn serve(
    listener: TcpListener,
    engine: EngineHandle,
    text: Arc<dyn Text>,
    options: ServeOptions,
    shutdown: impl Future<Output = ()> + Send + 'static,
    grace: Duration,
) -> io::Result<()> {
    let is_loopback = listener.local_addr()?.ip().is_loopback();
    let connections = Connections::new(options.limits);
    let app = App::new(engine.clone(), text, options, is_loopback);
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
    let server = connections::accept(listener, routes::routes(app), connections, signal);
    let (mut server, mut ended) = (pin!(server), pin!(ended));
    tokio::select! {
        () = &mut server => ended.await,
        // clients that do not read their answers do not keep the server
        () = &mut ended => drop(tokio::time::timeout(STALLED_CLIENTS, server).await),
    }
    Ok(())
}

/// How long answers may take to be read after the engine has ended.
const STALLED_CLIENTS: Duration = Duration::from_secs(2);
