//! The events of one request, for its client.

use std::{
    future::poll_fn,
    sync::{Arc, mpsc},
    task::{Context, Poll},
};

use tokio::sync::mpsc::Receiver;

use super::{
    request::{Event, RequestId},
    shared::{Command, Shared},
};

/// The events of a request, blocking ([`RequestStream::blocking_recv`]) or not ([`RequestStream::recv`]). It needs no
/// runtime of its own. Dropping it cancels the request.
#[derive(Debug)]
pub struct RequestStream {
    id: RequestId,
    events: Receiver<Event>,
    commands: mpsc::Sender<Command>,
    shared: Arc<Shared>,
    /// Choices that have not ended.
    open: usize,
}

impl RequestStream {
    pub(super) fn new(
        id: RequestId,
        choices: usize,
        events: Receiver<Event>,
        commands: mpsc::Sender<Command>,
        shared: Arc<Shared>,
    ) -> Self {
        RequestStream { id, events, commands, shared, open: choices }
    }

    /// The request.
    pub fn id(&self) -> RequestId {
        self.id
    }

    /// The next event; `None` after the last. It blocks the thread.
    ///
    /// # Panics
    ///
    /// Within an asynchronous runtime of tokio; use [`RequestStream::recv`] there.
    pub fn blocking_recv(&mut self) -> Option<Event> {
        let event = if self.open == 0 { None } else { self.events.blocking_recv() };
        self.count(event)
    }

    /// The next event; `None` after the last.
    pub async fn recv(&mut self) -> Option<Event> {
        poll_fn(|cx| self.poll_recv(cx)).await
    }

    /// Polls for the next event; `None` after the last.
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        let event = if self.open == 0 { Poll::Ready(None) } else { self.events.poll_recv(cx) };
        event.map(|event| self.count(event))
    }

    /// Ends one choice, as if it had drawn a token that ends a text: the client has found a string that it stops at.
    /// Tokens that were drawn before may still come.
    pub fn stop(&self, choice: usize) {
        // an engine that is gone has ended the choice
        let _ = self.commands.send(Command::Stop { request: self.id, choice });
    }

    /// Counts the choices that end. A channel that closes before is an engine that is gone.
    fn count(&mut self, event: Option<Event>) -> Option<Event> {
        match &event {
            Some(Event::Finished { .. }) => self.open = self.open.saturating_sub(1),
            Some(Event::Failed { .. }) => self.open = 0,
            Some(_) => {}
            None if self.open > 0 => {
                self.open = 0;
                let unread =
                    || format!("it was cancelled: its client has left {} events unread", self.events.max_capacity());
                let message = self.shared.stopped().map_or_else(unread, |why| why.to_string());
                return Some(Event::Failed { message });
            }
            None => {}
        }
        event
    }
}

impl Drop for RequestStream {
    fn drop(&mut self) {
        if self.open > 0 {
            // an engine that is gone has nothing to cancel
            let _ = self.commands.send(Command::Cancel { request: self.id });
        }
    }
}
