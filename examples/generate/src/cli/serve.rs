//! `generate --serve`.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Context as _;
use generate::serve::{ServeOptions, serve};
use tokio::net::TcpListener;

use super::model::{ModelArgs, Started};

/// Where and what is served.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ServeArgs {
    /// The address to listen on. There is no authentication: others than this machine's own are for trusted networks.
    #[arg(long, default_value = "127.0.0.1:8080")]
    addr: SocketAddr,
    /// The name of the model for clients; by default that of its file.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Bytes of a request's body, at most.
    #[arg(long, value_name = "BYTES", default_value_t = ServeOptions::default().max_body)]
    max_body: usize,
    /// Seconds that requests have to end after ctrl-c; a second ctrl-c ends at once.
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    grace: u64,
}

/// Serves until it is interrupted; endless texts too if that is asked.
pub(crate) fn run(model: &ModelArgs, args: &ServeArgs, endless: bool) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Runtime::new().context("no threads for the server")?;
    runtime.block_on(async {
        // before the model is loaded, which takes longer
        let listen = || format!("cannot listen on {}; choose another address with --addr", args.addr);
        let listener = TcpListener::bind(args.addr).await.with_context(listen)?;
        let address = listener.local_addr().with_context(listen)?;
        if !address.ip().is_loopback() {
            tracing::warn!("{address} is open to other machines, and nothing asks them who they are");
        }
        let Started { engine, tokenizer, device } = tokio::task::block_in_place(|| model.start(endless))?;
        let default = ServeOptions::default();
        let file = model.model.as_deref().and_then(|file| file.file_stem()).map(|stem| stem.to_string_lossy().into());
        let options = ServeOptions {
            model: args.name.clone().or(file).unwrap_or(default.model),
            max_body: args.max_body,
            speculate: model.speculate,
        };
        println!("{} on {device}: http://{address}/", options.model);
        let grace = Duration::from_secs(args.grace);
        serve(listener, engine, Arc::new(tokenizer), options, interrupted(), grace).await.context("the server failed")
    })
}

/// Waits for ctrl-c, or for what ends services. The next one ends the process.
async fn interrupted() {
    signal().await;
    tokio::spawn(async {
        signal().await;
        std::process::exit(130);
    });
}

#[cfg(unix)]
async fn signal() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminate) = signal(SignalKind::terminate()) else { return interrupt().await };
    tokio::select! {
        () = interrupt() => {}
        _ = terminate.recv() => {}
    }
}

#[cfg(not(unix))]
async fn signal() {
    interrupt().await;
}

async fn interrupt() {
    if tokio::signal::ctrl_c().await.is_err() {
        // a process that is told nothing runs until it is killed
        std::future::pending::<()>().await;
    }
}
