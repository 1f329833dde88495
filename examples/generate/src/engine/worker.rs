//! The thread of an engine.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, mpsc},
    time::Instant,
};

use hashbrown::HashMap;
use tokio::sync::mpsc::{Sender, error::TrySendError};

use super::{
    Engine,
    request::{Event, RequestEvent, RequestId},
    shared::{Command, Shared},
};
use crate::model::Model;

/// What the thread owns.
pub(super) struct Worker<M: Model> {
    engine: Engine<M>,
    commands: mpsc::Receiver<Command>,
    shared: Arc<Shared>,
    clients: HashMap<RequestId, Client>,
    /// Memory of one step's events.
    events: Vec<RequestEvent>,
    closing: bool,
    deadline: Option<Instant>,
}

/// Where the events of a request go.
struct Client {
    events: Sender<Event>,
    /// Choices that have not ended.
    open: usize,
    waiting: bool,
}

impl<M: Model> Worker<M> {
    pub(super) fn new(engine: Engine<M>, commands: mpsc::Receiver<Command>, shared: Arc<Shared>) -> Self {
        let (clients, events) = (HashMap::new(), Vec::new());
        Worker { engine, commands, shared, clients, events, closing: false, deadline: None }
    }

    /// Serves until there is nothing left to do. A panic fails all requests, and hangs none.
    pub(super) fn run(mut self) {
        let ended = catch_unwind(AssertUnwindSafe(|| self.serve()));
        let why = match ended {
            Ok(()) => "it was shut down".to_owned(),
            Err(panic) => format!("a panic: {}", text_of(&*panic)),
        };
        self.shared.stop(&why);
        if !self.clients.is_empty() {
            tracing::error!(why, requests = self.clients.len(), "the engine has stopped");
        }
        let message = format!("the engine has stopped: {why}");
        for (_, client) in self.clients.drain() {
            // a client that went away needs no answer
            let _ = client.events.try_send(Event::Failed { message: message.clone() });
        }
        // what panicked once may panic again when it is dropped
        let _ = catch_unwind(AssertUnwindSafe(|| drop(self)));
    }

    fn serve(&mut self) {
        loop {
            if self.engine.is_idle() {
                if self.closing {
                    return;
                }
                match self.commands.recv() {
                    Ok(command) => self.apply(command),
                    Err(_) => return, // neither handles nor streams are left
                }
            }
            while let Ok(command) = self.commands.try_recv() {
                self.apply(command);
            }
            if self.deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                let left: Vec<RequestId> = self.clients.keys().copied().collect();
                left.into_iter().for_each(|request| self.engine.cancel(request));
            }
            self.engine.step(&mut self.events);
            self.shared.publish(self.engine.stats());
            self.dispatch();
        }
    }

    fn apply(&mut self, command: Command) {
        match command {
            Command::Submit { id, request, events } => {
                self.clients.insert(id, Client { events, open: request.choices, waiting: true });
                self.engine.enqueue(id, request);
            }
            Command::Cancel { request } => self.engine.cancel(request),
            Command::Stop { request, choice } => self.engine.stop(request, choice),
            Command::Close { deadline } => (self.closing, self.deadline) = (true, deadline.or(self.deadline)),
        }
    }

    fn dispatch(&mut self) {
        for RequestEvent { request, event } in self.events.drain(..) {
            let Some(client) = self.clients.get_mut(&request) else { continue };
            match &event {
                Event::Finished { .. } => client.open -= 1,
                Event::Failed { .. } => client.open = 0,
                Event::Started { .. } | Event::Prompt { .. } | Event::Token { .. } => {}
            }
            if client.waiting {
                // its first event, of whatever kind
                client.waiting = false;
                self.shared.leave();
            }
            let ended = client.open == 0;
            // the stream of a client that went away has sent `Cancel`
            let unread = matches!(client.events.try_send(event), Err(TrySendError::Full(_)));
            if unread && !ended {
                tracing::warn!(request = request.0, "a request is cancelled: its client does not read");
                self.engine.cancel(request);
            }
            if ended || unread {
                self.clients.remove(&request);
            }
        }
    }
}

/// The message of a panic.
fn text_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("of unknown kind")
}
