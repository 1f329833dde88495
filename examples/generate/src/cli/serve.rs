//! `generate --serve`.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Context as _;
use generate::{
    ModelArgs, Started,
    serve::{ApiKey, Limits, ServeOptions, serve},
};
use tokio::net::TcpListener;

/// Where and what is served.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ServeArgs {
    /// The address to listen on. On this machine's own addresses requests must name it so (`localhost`); on others set
    /// a key.
    #[arg(long, default_value = "127.0.0.1:8080")]
    addr: SocketAddr,
    /// The name of the model for clients; by default that of its file.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The key that clients send as `Authorization: Bearer KEY`. Other users of this machine can read a command line:
    /// GENERATE_API_KEY sets the key too. `/health` and the page need none.
    #[arg(long, value_name = "KEY")]
    api_key: Option<String>,
    /// Connections at a time. One that waits for its client ends when there is no room for a new one.
    #[arg(long, value_name = "CONNECTIONS", default_value_t = Limits::default().connections)]
    max_connections: usize,
    /// MiB that all requests may take beside the model; one may take a quarter of it.
    #[arg(long, value_name = "MIB", default_value_t = Limits::default().memory >> 20)]
    max_memory: usize,
    /// Bytes of a request's body, at most.
    #[arg(long, value_name = "BYTES", default_value_t = ServeOptions::default().max_body)]
    max_body: usize,
    /// Seconds that requests have to end after ctrl-c; a second ctrl-c ends at once.
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    grace: u64,
}

impl ServeArgs {
    /// The key of the command line, or else that of the environment.
    fn api_key(&self) -> anyhow::Result<Option<ApiKey>> {
        let of_variable = || std::env::var("GENERATE_API_KEY").ok();
        let Some(key) = self.api_key.clone().or_else(of_variable) else { return Ok(None) };
        ApiKey::new(&key).map(Some).context("the key is empty; see --api-key and GENERATE_API_KEY")
    }
}

/// Serves until it is interrupted; endless texts too if that is asked.
pub(crate) fn run(model: &ModelArgs, args: &ServeArgs, endless: bool) -> anyhow::Result<()> {
    anyhow::ensure!(args.max_connections > 1, "there are at least two connections; see --max-connections");
    anyhow::ensure!(args.max_memory > 0, "requests take at least 1 MiB; see --max-memory");
    let memory = args.max_memory.saturating_mul(1 << 20);
    let limits = Limits { connections: args.max_connections, memory, ..Limits::default() };
    let api_key = args.api_key()?;
    let runtime = tokio::runtime::Runtime::new().context("no threads for the server")?;
    runtime.block_on(async {
        // before the model is loaded, which takes longer
        let listen = || format!("cannot listen on {}; choose another address with --addr", args.addr);
        let listener = TcpListener::bind(args.addr).await.with_context(listen)?;
        let address = listener.local_addr().with_context(listen)?;
        if !address.ip().is_loopback() && api_key.is_none() {
            tracing::warn!("{address} is open to other machines, and nothing asks them who they are; see --api-key");
        }
        let Started { engine, tokenizer, device } = tokio::task::block_in_place(|| model.start(endless, true))?;
        let default = ServeOptions::default();
        let file = model.model.as_deref().and_then(|file| file.file_stem()).map(|stem| stem.to_string_lossy().into());
        let options = ServeOptions {
            model: args.name.clone().or(file).unwrap_or(default.model),
            max_body: args.max_body,
            speculate: model.speculate,
            api_key,
            limits,
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
