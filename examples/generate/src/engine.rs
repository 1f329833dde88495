//! Requests, and the loop that serves them: continuous batching with chunked prefill, prefix reuse, parallel sampling,
//! speculation by prompt lookup, and endless text.
//!
//! An [`Engine`] is driven by its caller, one [`Engine::step`] after the other. An [`EngineHandle`] runs one on a
//! thread, and gives each request a [`RequestStream`] of its [`Event`]s.

mod command;
mod config;
mod handle;
mod limits;
mod refused;
mod request;
mod shared;
mod stats;
mod stream;
mod worker;

pub use config::EngineConfig;
pub use handle::EngineHandle;
pub use refused::Refused;
pub use request::{Event, FinishReason, Request, RequestEvent, RequestId};
pub use stats::EngineStats;
pub use stream::RequestStream;

use limits::RequestLimits;

use crate::{Error, model::Model};

/// Requests over one model.
#[derive(Debug)]
pub struct Engine<M> {
    model: M,
    config: EngineConfig,
    limits: RequestLimits,
    next_id: u64,
}

impl<M: Model> Engine<M> {
    /// An engine without requests.
    ///
    /// # Errors
    ///
    /// [`Error::Cache`] for step arrays that `i32` cannot index.
    pub fn new(model: M, config: EngineConfig) -> Result<Self, Error> {
        let limits =
            RequestLimits { model: model.limits(), pages: model.pages().clone(), max_waiting: config.max_waiting };
        Ok(Engine { model, config, limits, next_id: 0 })
    }

    /// Puts a request into the queue.
    ///
    /// # Errors
    ///
    /// [`Refused`] says why it is not run.
    pub fn submit(&mut self, request: Request) -> Result<RequestId, Refused> {
        self.limits.check(&request)?;
        let id = RequestId(self.next_id);
        self.next_id += 1;
        self.enqueue(id, request);
        Ok(id)
    }

    pub(crate) fn enqueue(&mut self, _id: RequestId, _request: Request) {
        unimplemented!()
    }

    /// Ends a request. The next step says so to each of its choices.
    pub fn cancel(&mut self, _request: RequestId) {
        unimplemented!()
    }

    /// Ends one choice of a request, as a token that ends a text would.
    pub fn stop(&mut self, _request: RequestId, _choice: usize) {
        unimplemented!()
    }

    /// Runs one step of the model, and adds what happened to `events`.
    pub fn step(&mut self, _events: &mut Vec<RequestEvent>) {
        let _ = (&mut self.model, &self.config);
        unimplemented!()
    }

    /// Whether no request is left and all events were given.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        unimplemented!()
    }

    /// The counts now.
    #[must_use]
    pub fn stats(&self) -> EngineStats {
        unimplemented!()
    }

    fn limits(&self) -> &RequestLimits {
        &self.limits
    }
}
