//! Connections: how many there are, how long they may be silent, and which one ends when there are too many.
//!
//! A connection is *silent* while it waits for its client: for headers, for a body, or for the next request. If there
//! is no room for a new connection, the one that has been silent for longest ends. So clients that open connections and
//! say nothing keep nobody out, whatever the limit of file descriptors.

use std::{
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use axum::{Extension, Router};
use hashbrown::HashMap;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::{AbortHandle, JoinSet},
    time::{Duration, sleep},
};
use tokio_io_timeout::TimeoutStream;

use super::limits::Limits;

/// Bytes of the headers of a request, at most. A connection keeps as many for what comes next.
const HEADER_BYTES: usize = 64 << 10;
/// What waits for a thread to close a connection.
const CLOSING: Duration = Duration::from_millis(2);
/// What waits where the system gives no connection, and none can be closed.
const STARVED: Duration = Duration::from_millis(100);
/// Errors of the listener are logged as often.
const LOG_EVERY: Duration = Duration::from_secs(1);

/// The connections of a server.
#[derive(Debug)]
pub(crate) struct Connections {
    limits: Limits,
    open: Mutex<HashMap<u64, Open>>,
    next: AtomicU64,
}

/// A connection.
#[derive(Debug)]
struct Open {
    /// `None` while a request of it is answered.
    silent_since: Option<Instant>,
    task: Option<AbortHandle>,
}

/// What a request knows of its connection.
#[derive(Clone, Debug)]
pub(crate) struct Seat {
    connections: Arc<Connections>,
    id: u64,
}

/// While it lives, its connection is not silent.
#[derive(Debug)]
pub(crate) struct Answering(Seat);

impl Connections {
    pub(crate) fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Connections { limits, open: Mutex::default(), next: AtomicU64::new(0) })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a connection, for which there is room.
    fn enter(self: &Arc<Self>) -> Seat {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        self.lock().insert(id, Open { silent_since: Some(Instant::now()), task: None });
        Seat { connections: Arc::clone(self), id }
    }

    /// Ends the connection that has been silent for longest. It is false if there is none.
    fn shed(&self) -> bool {
        let mut open = self.lock();
        let silent = open.iter().filter_map(|(&id, open)| Some((open.silent_since?, id, open.task.as_ref()?)));
        let Some((_, id, _)) = silent.min_by_key(|&(since, id, _)| (since, id)) else { return false };
        if let Some(Open { task: Some(task), .. }) = open.remove(&id) {
            task.abort();
        }
        true
    }

    fn is_full(&self) -> bool {
        self.lock().len() >= self.limits.connections
    }
}

impl Seat {
    /// The client sends a body now: those that have not come so far end before it.
    pub(crate) fn reads(&self) {
        if let Some(open) = self.connections.lock().get_mut(&self.id) {
            open.silent_since = open.silent_since.map(|_| Instant::now());
        }
    }

    /// The request is there, and is answered from now on. `None` if as many are answered as may be: an eighth of the
    /// connections is for those that ask for health.
    pub(crate) fn answers(&self) -> Option<Answering> {
        let mut open = self.connections.lock();
        let answered = open.values().filter(|open| open.silent_since.is_none()).count();
        let most = self.connections.limits.connections;
        if answered >= most - (most / 8).max(1) {
            return None;
        }
        open.get_mut(&self.id)?.silent_since = None;
        drop(open);
        Some(Answering(self.clone()))
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        let Seat { connections, id } = &self.0;
        if let Some(open) = connections.lock().get_mut(id) {
            open.silent_since = Some(Instant::now());
        }
    }
}

/// Takes connections until `shutdown` is done, and answers their requests. It returns when the last one has ended.
pub(crate) async fn accept(
    listener: TcpListener,
    routes: Router,
    connections: Arc<Connections>,
    shutdown: impl Future<Output = ()>,
) {
    let (drain, draining) = watch::channel(false);
    let mut tasks = JoinSet::new();
    let mut shutdown = std::pin::pin!(shutdown);
    let mut logged: Option<Instant> = None;
    loop {
        let accepted = tokio::select! {
            () = &mut shutdown => break,
            Some(_) = tasks.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                if connections.is_full() && !connections.shed() {
                    tracing::warn!("a connection is refused: all others are being answered");
                    continue;
                }
                let seat = connections.enter();
                let task = tasks.spawn(serve(stream, routes.clone(), seat.clone(), draining.clone()));
                if let Some(open) = connections.lock().get_mut(&seat.id) {
                    open.task = Some(task);
                }
            }
            Err(error) if is_of_one_connection(&error) => tracing::debug!(%error, "a connection was not made"),
            Err(error) => {
                if logged.is_none_or(|last| last.elapsed() >= LOG_EVERY) {
                    logged = Some(Instant::now());
                    let open = connections.lock().len();
                    tracing::error!(%error, open, "a connection cannot be accepted; see `ulimit -n`");
                }
                sleep(if connections.shed() { CLOSING } else { STARVED }).await;
            }
        }
    }
    drop(listener);
    // nobody receives if there is no connection
    let _ = drain.send(true);
    while tasks.join_next().await.is_some() {}
}

fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// Answers the requests of one connection.
async fn serve(stream: TcpStream, routes: Router, seat: Seat, mut draining: watch::Receiver<bool>) {
    let _leaves = Leaves(seat.clone());
    let limits = &seat.connections.limits;
    // tokens are small, and should not wait for each other
    let _ = stream.set_nodelay(true);
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(limits.write_timeout));
    let mut builder = http1::Builder::new();
    // also the time between two requests
    builder.timer(TokioTimer::new()).header_read_timeout(limits.header_timeout).max_buf_size(HEADER_BYTES);
    let service = TowerToHyperService::new(routes.layer(Extension(seat.clone())));
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(Box::pin(stream)), service));
    // the sender is there until all connections have ended
    let drains = async { drop(draining.wait_for(|&draining| draining).await) };
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = drains => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended");
    }
}

/// Takes a connection off the list when its task ends, in whatever way.
struct Leaves(Seat);

impl Drop for Leaves {
    fn drop(&mut self) {
        self.0.connections.lock().remove(&self.0.id);
    }
}
