//! OpenAI's completions over HTTP, with a chat page.
//!
//! | path | what |
//! |---|---|
//! | `POST /v1/completions`, `POST /v1/chat/completions` | text, whole or as server-sent events |
//! | `GET /v1/models`, `GET /health` | what is served, and whether it is |
//! | `GET /metrics` | counts and latencies for Prometheus |
//! | `GET /` | a page to chat with the model |
//!
//! A parameter that is not supported is an error. A client that goes away cancels its request.
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
mod parameters;
mod routes;
mod stamp;
mod stop;
mod text;

pub use app::ServeOptions;
pub use text::Text;

use std::{io, sync::Arc, time::Duration};

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
    let (drained, wait) = oneshot::channel();
    let signal = async move {
        shutdown.await;
        tracing::info!("no more requests are taken; those that run have {} s", grace.as_secs_f64());
        // it blocks until the requests are done, while their answers are still being sent
        tokio::task::spawn_blocking(move || {
            engine.shutdown(grace);
            let _ = drained.send(());
        });
    };
    let server = axum::serve(listener, routes::routes(app)).with_graceful_shutdown(signal);
    // clients that do not read their answers do not keep the server
    let stalled = async {
        match wait.await {
            Ok(()) => tokio::time::sleep(STALLED_CLIENTS).await,
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        result = server => result,
        () = stalled => Ok(()),
    }
}

/// How long answers may take to be read after the engine has ended.
const STALLED_CLIENTS: Duration = Duration::from_secs(2);
