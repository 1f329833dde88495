//! Replays a trace against an engine in this process.

use std::{
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use tokio::task::JoinSet;

use super::trace::{Arrival, TraceOptions};
use crate::{
    Error,
    engine::{EngineHandle, EngineStats, Event, Refused, Request, RequestStream},
    sampling::SamplingParams,
};

/// What was measured of one choice of a request. Times are since the scheduled arrival.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Record {
    /// Until the first token.
    pub(super) first: Duration,
    /// Until the last token.
    pub(super) last: Duration,
    /// Between tokens, one less than there are.
    pub(super) gaps: Vec<Duration>,
}

/// All that was measured.
#[derive(Clone, Debug, Default)]
pub(super) struct Records {
    pub(super) choices: Vec<Record>,
    /// Tokens of the prompts of requests that ended well, and how many were cached.
    pub(super) prompt_tokens: usize,
    pub(super) cached_tokens: usize,
    /// Why requests failed.
    pub(super) failures: Vec<String>,
    /// How late each request was handed to the engine, after its scheduled arrival.
    pub(super) lateness: Vec<Duration>,
    /// From the first scheduled arrival to the last token.
    pub(super) duration: Duration,
    /// What the engine counted before and after.
    pub(super) stats: Option<(EngineStats, EngineStats)>,
}

/// How far a replay is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Requests that ended.
    pub ended: usize,
    /// Tokens that were generated.
    pub tokens: usize,
}

/// Called after each request.
pub type OnProgress = dyn Fn(Progress) + Send + Sync;

/// Replays the trace. Requests arrive at their times whether or not the engine keeps up, and latencies begin at the
/// scheduled arrival, so that waiting is never left out (no coordinated omission).
pub(super) fn replay(
    engine: &EngineHandle,
    trace: &[Arrival],
    options: &TraceOptions,
    progress: &Arc<OnProgress>,
) -> Result<Records, Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .map_err(|error| Error::Bench { what: format!("no thread to measure on: {error}") })?;
    let records = Arc::new(Mutex::new(Records::default()));
    let before = engine.stats();
    let mut clients = JoinSet::new();
    let begin = Instant::now();
    for (index, arrival) in trace.iter().enumerate() {
        let scheduled = begin + arrival.at;
        thread::sleep(scheduled.saturating_duration_since(Instant::now()));
        let request = request(arrival, options, index);
        let (engine, records, progress) = (engine.clone(), Arc::clone(&records), Arc::clone(progress));
        let first_try = engine.submit(request.clone());
        let late = scheduled.elapsed();
        let client = async move {
            let outcome = match retry(&engine, request.clone(), first_try).await {
                Ok(stream) => measure(stream, scheduled, request.choices).await,
                Err(refused) => Err(refused.to_string()),
            };
            let mut records = records.lock().unwrap_or_else(PoisonError::into_inner);
            records.lateness.push(late);
            match outcome {
                Ok((choices, cached)) => {
                    records.choices.extend(choices);
                    records.prompt_tokens += request.prompt.len();
                    records.cached_tokens += cached;
                }
                Err(message) => records.failures.push(message),
            }
            let tokens = records.choices.iter().map(|choice| choice.gaps.len() + 1).sum();
            progress(Progress { ended: records.lateness.len(), tokens });
        };
        clients.spawn_on(client, runtime.handle());
    }
    runtime.block_on(async { while clients.join_next().await.is_some() {} });
    let duration = begin.elapsed();
    let mut records = std::mem::take(&mut *records.lock().unwrap_or_else(PoisonError::into_inner));
    records.duration = duration;
    records.stats = Some((before, engine.stats()));
    Ok(records)
}

/// Ends of texts are ignored, so that outputs have the lengths of the trace.
fn request(arrival: &Arrival, options: &TraceOptions, index: usize) -> Request {
    let seed = options.seed.wrapping_add((index * options.choices) as u64);
    let temperature = if options.choices > 1 { 1.0 } else { 0.0 };
    Request {
        sampling: SamplingParams { seed, temperature, ..SamplingParams::default() },
        choices: options.choices,
        ignore_eos: true,
        speculate: options.speculate,
        ..Request::new(arrival.prompt.clone(), arrival.output)
    }
}

/// Tries again while the engine is busy; the clock of the request runs.
async fn retry(
    engine: &EngineHandle,
    request: Request,
    mut outcome: Result<RequestStream, Refused>,
) -> Result<RequestStream, Refused> {
    while let Err(Refused::Busy { .. }) = outcome {
        tokio::time::sleep(Duration::from_millis(1)).await;
        outcome = engine.submit(request.clone());
    }
    outcome
}

async fn measure(
    mut stream: RequestStream,
    scheduled: Instant,
    choices: usize,
) -> Result<(Vec<Record>, usize), String> {
    let mut records: Vec<Option<Record>> = vec![None; choices];
    let mut cached = 0;
    while let Some(event) = stream.recv().await {
        let now = scheduled.elapsed();
        match event {
            Event::Started { cached_tokens } => cached = cached_tokens,
            Event::Token { choice, .. } => match &mut records[choice] {
                Some(record) => {
                    record.gaps.push(now - record.last);
                    record.last = now;
                }
                none => *none = Some(Record { first: now, last: now, gaps: Vec::new() }),
            },
            Event::Prompt { .. } | Event::Finished { .. } => {}
            Event::Failed { message } => return Err(message),
        }
    }
    let records: Option<Vec<Record>> = records.into_iter().collect();
    records.map(|records| (records, cached)).ok_or_else(|| "a choice ended without a token".into())
}
