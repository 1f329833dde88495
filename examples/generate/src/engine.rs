//! Requests, and the loop that serves them: continuous batching with chunked prefill, prefix reuse, parallel sampling,
//! speculation by prompt lookup, and endless text.
//!
//! An [`Engine`] is driven by its caller, one [`Engine::step`] after the other. An [`EngineHandle`] runs one on a
//! thread, and gives each request a [`RequestStream`] of its [`Event`]s.
//!
//! A step computes one token of every text that runs, and chunks of prompts with what is left of the step's tokens.
//! Requests are served in the order in which they came. Pages are taken when tokens need them: free pages, then pages
//! that only the prefix tree holds, then those of the newest text, which is computed again later (as in vLLM). So the
//! oldest text always goes on, and no request waits for ever.

mod accept;
mod admit;
mod allocation;
mod choice;
mod config;
mod end;
mod handle;
mod job;
mod launch;
mod limits;
mod prompt_lookup;
mod refused;
mod request;
mod schedule;
mod shared;
mod stats;
mod stream;
mod waiting;
mod worker;

use attn_cache::{CacheError, Step};

use allocation::Allocation;
use choice::Choice;
pub use config::EngineConfig;
pub use handle::EngineHandle;
use job::Job;
use launch::StepBatch;
use limits::RequestLimits;
pub use refused::Refused;
pub use request::{Event, FinishReason, Request, RequestEvent, RequestId};
pub use stats::EngineStats;
pub use stream::RequestStream;
use waiting::{Blocked, Waiting};

use crate::{
    Error,
    model::{Model, ModelLimits},
};

/// Requests over one model.
#[derive(Debug)]
pub struct Engine<M> {
    model: M,
    config: EngineConfig,
    limits: RequestLimits,
    allocation: Allocation,
    batch: StepBatch,
    /// Choices that have pages, the oldest first.
    running: Vec<Choice>,
    waiting: Waiting,
    /// Events of calls between steps.
    outbox: Vec<RequestEvent>,
    /// Requests that failed in this step, and why.
    failures: Vec<(RequestId, String)>,
    next_id: u64,
    /// Pages that stay free when a request is admitted.
    watermark: usize,
    blocked: Option<Blocked>,
    /// Rows of this step that nothing needs so far.
    spare_rows: usize,
    /// Whether a choice was preempted in this step.
    has_preempted: bool,
    stats: EngineStats,
}

impl<M: Model> Engine<M> {
    /// An engine without requests.
    ///
    /// # Errors
    ///
    /// [`Error::Cache`] for step arrays that `i32` cannot index; [`Error::Model`] for a model whose steps are empty.
    pub fn new(model: M, mut config: EngineConfig) -> Result<Self, Error> {
        let (of_model, pages) = (model.limits(), model.pages().clone());
        // every sequence has a token, and draws one
        let step_sequences = of_model.step_sequences.min(of_model.step_tokens).min(of_model.step_rows);
        if step_sequences == 0 || pages.count() == 0 || of_model.context < 2 {
            return Err(Error::Model(format!("it can run nothing, with {} pages and {of_model:?}", pages.count())));
        }
        // a chunk fits beside a token of every other sequence, so that the oldest prompt always goes on
        config.chunk_tokens = config.chunk_tokens.clamp(1, of_model.step_tokens + 1 - step_sequences);
        // a cascade merges in an order that depends on who else is there
        config.cascade &= !config.batch_invariant;
        let step = Step::new(&pages, of_model.step_capacity(pages.page_size()))?;
        let limits = RequestLimits {
            model: ModelLimits { step_sequences, ..of_model },
            pages: pages.clone(),
            max_waiting: config.max_waiting,
            // as many as a channel may have, and at least one
            max_unread: config.max_unread.clamp(1, usize::MAX >> 3),
        };
        Ok(Engine {
            allocation: Allocation::new(&pages, config.reuse_prefixes),
            batch: StepBatch::new(if config.cascade { step.group_prefixes() } else { step }),
            running: Vec::new(),
            waiting: Waiting::default(),
            outbox: Vec::new(),
            failures: Vec::new(),
            next_id: 0,
            // a fraction of a count that i32 holds
            watermark: (f64::from(config.watermark.clamp(0.0, 1.0)) * pages.count() as f64) as usize,
            blocked: None,
            spare_rows: 0,
            has_preempted: false,
            stats: EngineStats::default(),
            model,
            config,
            limits,
        })
    }

    /// Puts a request into the queue.
    ///
    /// # Errors
    ///
    /// [`Refused`] says why it is not run.
    pub fn submit(&mut self, request: Request) -> Result<RequestId, Refused> {
        self.limits.check(&request)?;
        let waiting = self.waiting.len();
        if waiting >= self.limits.max_waiting {
            return Err(Refused::Busy { waiting });
        }
        let id = RequestId(self.next_id);
        self.next_id += 1;
        self.enqueue(id, request);
        Ok(id)
    }

    /// Puts a request into the queue that was checked already. Later requests have greater numbers.
    fn enqueue(&mut self, id: RequestId, request: Request) {
        self.waiting.push(Choice::new(Job::new(id, request), &self.limits.pages));
    }

    /// Runs one step of the model, and adds what happened to `events`. A failure of the model fails the requests of the
    /// step, and no others.
    pub fn step(&mut self, events: &mut Vec<RequestEvent>) {
        events.append(&mut self.outbox);
        self.schedule(events);
        if !self.batch.pick(&self.running) {
            self.fail_oldest(events);
            return;
        }
        self.stats.steps += 1;
        match self.batch.launch(&mut self.model, &mut self.running, self.config.cascade, &mut self.stats) {
            Ok(sampled) => self.accept(sampled, events),
            Err(error) => self.fail_step(&error),
        }
        self.sweep(Vec::new(), events);
    }

    /// Whether no request is left, and all events were given.
    pub fn is_idle(&self) -> bool {
        self.running.is_empty() && self.waiting.len() == 0 && self.outbox.is_empty()
    }

    /// The counts now.
    pub fn stats(&self) -> EngineStats {
        let (running, waiting, pages) = (self.running.len(), self.waiting.len(), self.limits.pages.stats());
        EngineStats { running, waiting, pages, ..self.stats }
    }

    /// The model.
    pub fn model(&self) -> &M {
        &self.model
    }

    /// Forgets all cached prefixes that no request uses.
    pub fn clear_prefixes(&mut self) {
        self.allocation.prefix.clear();
    }

    /// Checks the pages, the prefix tree, and that nothing but the tree and the sequences that run refers to a page. It
    /// walks over all pages, for tests and debug builds, between two steps.
    ///
    /// # Errors
    ///
    /// [`CacheError::Broken`] says what does not hold.
    pub fn check(&self) -> Result<(), CacheError> {
        let sequences = self.running.iter().chain(self.waiting.iter()).map(|choice| &choice.sequence);
        self.allocation.check(sequences)
    }

    fn check_in_debug_builds(&self) {
        if cfg!(debug_assertions)
            && let Err(error) = self.check()
        {
            panic!("{error}");
        }
    }

    fn limits(&self) -> &RequestLimits {
        &self.limits
    }
}
