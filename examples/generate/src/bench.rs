//! Traces of requests, latencies and throughput.
//!
//! A [`draw`]n trace is replayed by [`run`] against an engine in this process. Latencies begin when a request should
//! arrive, whether or not the engine was ready for it.

mod replay;
mod report;
mod summary;
mod trace;

use std::sync::Arc;

pub use replay::{OnProgress, Progress};
pub use report::Report;
pub use summary::Summary;
pub use trace::{Arrival, Lengths, TraceOptions, draw};

use crate::{Error, engine::EngineHandle};

/// Draws a trace and replays it. `progress` is called after each request.
///
/// # Errors
///
/// [`Error::Bench`] for options that describe no trace of this engine's model. Requests that fail are counted.
pub fn run(engine: &EngineHandle, options: &TraceOptions, progress: &Arc<OnProgress>) -> Result<Report, Error> {
    let limits = engine.model_limits();
    let trace = draw(options, limits.vocab, limits.context)?;
    Ok(Report::of(replay::replay(engine, &trace, options, progress)?))
}
