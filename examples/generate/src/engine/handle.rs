//! An engine on a thread of its own.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use attn_cache::Pages;
use tokio::sync::mpsc::channel;

use super::{
    Engine,
    refused::Refused,
    request::Request,
    shared::{Command, Shared},
    stats::EngineStats,
    stream::RequestStream,
    worker::Worker,
};
use crate::model::{Model, ModelLimits};

/// A handle to an engine that runs on a thread of its own. A clone is another handle to the same engine.
///
/// Once the last handle is dropped, the thread ends when the requests that it has are done.
#[derive(Clone, Debug)]
pub struct EngineHandle {
    thread: Arc<EngineThread>,
}

#[derive(Debug)]
struct EngineThread {
    shared: Arc<Shared>,
    commands: mpsc::Sender<Command>,
    join: Mutex<Option<JoinHandle<()>>>,
}

impl EngineHandle {
    /// Moves an engine to a new thread.
    ///
    /// # Errors
    ///
    /// That of the operating system, which has no thread.
    pub fn spawn<M: Model + 'static>(engine: Engine<M>) -> io::Result<Self> {
        let shared = Arc::new(Shared::new(engine.limits().clone(), engine.stats()));
        let (commands, received) = mpsc::channel();
        let worker = Worker::new(engine, received, Arc::clone(&shared));
        let join = thread::Builder::new().name("engine".into()).spawn(move || worker.run())?;
        Ok(EngineHandle { thread: Arc::new(EngineThread { shared, commands, join: Mutex::new(Some(join)) }) })
    }

    /// Hands a request to the engine. It never blocks.
    ///
    /// # Errors
    ///
    /// [`Refused`] says why the request is not run.
    pub fn submit(&self, request: Request) -> Result<RequestStream, Refused> {
        let EngineThread { shared, commands, .. } = &*self.thread;
        shared.limits.check(&request)?;
        let id = shared.enter()?;
        let (events, received) = channel(shared.limits.max_unread);
        let stream = RequestStream::new(id, request.choices, received, commands.clone(), Arc::clone(shared));
        // a thread that ended in between has dropped the sender, and the stream says so
        let _ = commands.send(Command::Submit { id, request, events });
        Ok(stream)
    }

    /// Whether a request would be taken by an engine without others.
    ///
    /// # Errors
    ///
    /// [`Refused`] says why not.
    pub fn check(&self, request: &Request) -> Result<(), Refused> {
        self.thread.shared.limits.check(request)
    }

    /// The counts after the last step.
    pub fn stats(&self) -> EngineStats {
        self.thread.shared.stats()
    }

    /// What the model can do.
    pub fn model_limits(&self) -> ModelLimits {
        self.thread.shared.limits.model
    }

    /// The pages of the KV cache.
    pub fn pages(&self) -> &Pages {
        &self.thread.shared.limits.pages
    }

    /// Whether requests are taken: neither shut down nor failed.
    ///
    /// # Errors
    ///
    /// [`Refused::ShuttingDown`] or [`Refused::Stopped`].
    pub fn health(&self) -> Result<(), Refused> {
        self.thread.shared.is_open()
    }

    /// Takes no more requests, and waits until those that it has are done. What is left after `grace` is cancelled.
    /// The engine and its model are dropped then. It blocks the thread, also if another one has asked before.
    pub fn shutdown(&self, grace: Duration) {
        self.thread.shared.close();
        // a grace beyond the clock is none
        let deadline = Instant::now().checked_add(grace);
        let _ = self.thread.commands.send(Command::Close { deadline });
        // held while it waits, so that others wait too
        let mut join = self.thread.join.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(join) = join.take() {
            // the thread catches panics and says so to its requests
            let _ = join.join();
        }
    }
}

impl Drop for EngineThread {
    fn drop(&mut self) {
        let _ = self.commands.send(Command::Close { deadline: None });
    }
}
