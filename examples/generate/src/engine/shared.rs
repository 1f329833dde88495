//! What the handles, the streams and the thread of an engine share.

use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Instant,
};

use tokio::sync::mpsc::Sender;

use super::{
    limits::RequestLimits,
    refused::Refused,
    request::{Event, Request, RequestId},
    stats::EngineStats,
};

/// What a handle asks of the thread of its engine.
#[derive(Debug)]
pub(super) enum Command {
    /// A request that was checked already.
    Submit { id: RequestId, request: Request, events: Sender<Event> },
    /// The client went away.
    Cancel { request: RequestId },
    /// The client ends a choice.
    Stop { request: RequestId, choice: usize },
    /// No request follows. Those that are left at the deadline are cancelled; `None` for no deadline.
    Close { deadline: Option<Instant> },
}

/// The state that a handle reads without asking the thread.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) limits: RequestLimits,
    next_id: AtomicU64,
    /// Requests that were submitted and have not started.
    waiting: AtomicUsize,
    closing: AtomicBool,
    stats: Mutex<EngineStats>,
    /// Why the thread ended.
    stopped: Mutex<Option<String>>,
}

impl Shared {
    pub(super) fn new(limits: RequestLimits, stats: EngineStats) -> Self {
        Shared {
            limits,
            next_id: AtomicU64::new(0),
            waiting: AtomicUsize::new(0),
            closing: AtomicBool::new(false),
            stats: Mutex::new(stats),
            stopped: Mutex::new(None),
        }
    }

    /// Whether requests are taken.
    pub(super) fn is_open(&self) -> Result<(), Refused> {
        match self.stopped() {
            Some(refused) => Err(refused),
            None if self.closing.load(Ordering::Acquire) => Err(Refused::ShuttingDown),
            None => Ok(()),
        }
    }

    /// The number of a new request, which waits from now on.
    pub(super) fn enter(&self) -> Result<RequestId, Refused> {
        self.is_open()?;
        let most = self.limits.max_waiting;
        let more = |waiting: usize| (waiting < most).then_some(waiting + 1);
        match self.waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) {
            Ok(_) => Ok(RequestId(self.next_id.fetch_add(1, Ordering::Relaxed))),
            Err(waiting) => Err(Refused::Busy { waiting }),
        }
    }

    /// A request has left the queue.
    pub(super) fn leave(&self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }

    /// No request enters from now on.
    pub(super) fn close(&self) {
        self.closing.store(true, Ordering::Release);
    }

    pub(super) fn stats(&self) -> EngineStats {
        *lock(&self.stats)
    }

    pub(super) fn publish(&self, stats: EngineStats) {
        *lock(&self.stats) = stats;
    }

    /// The thread has ended.
    pub(super) fn stop(&self, why: &str) {
        lock(&self.stopped).get_or_insert_with(|| why.to_owned());
    }

    /// Why no request can be run any more, once the thread has ended.
    pub(super) fn stopped(&self) -> Option<Refused> {
        lock(&self.stopped).clone().map(|why| Refused::Stopped { why })
    }
}

/// Locks a value that is replaced as a whole, so a panic leaves no half of it.
fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}
