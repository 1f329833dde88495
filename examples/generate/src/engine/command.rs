//! What a handle asks of the thread of its engine.

use std::time::Instant;

use tokio::sync::mpsc::Sender;

use super::request::{Event, Request, RequestId};

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
