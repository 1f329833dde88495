//! Replays a trace against an engine in this process.

use std::{
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use generate::{
    engine::{EngineHandle, Event, Refused, Request, RequestStream},
    sampling::SamplingParams,
};
use indicatif::ProgressBar;
use tokio::task::JoinSet;

use crate::{
    report::{Record, Records, Report},
    trace::{Arrival, TraceOptions},
};

/// Draws a trace and replays it, with up to `speculate` guesses a step. Requests arrive at their times whether or not
/// the engine keeps up, and latencies begin at the scheduled arrival, so that waiting is never left out (no coordinated
/// omission). The bar shows how many requests have ended.
///
/// # Errors
///
/// Options that describe no trace of this engine's model. Requests that fail are counted.
pub fn replay(
    engine: &EngineHandle,
    options: &TraceOptions,
    speculate: usize,
    bar: &ProgressBar,
) -> anyhow::Result<Report> {
    let limits = engine.model_limits();
    let trace = options.draw(limits.vocab, limits.context)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build()?;
    let records = Arc::new(Mutex::new(Records::default()));
    let before = engine.stats();
    let mut clients = JoinSet::new();
    let begin = Instant::now();
    for (index, arrival) in trace.iter().enumerate() {
        let scheduled = begin + arrival.at;
        thread::sleep(scheduled.saturating_duration_since(Instant::now()));
        let request = Request { speculate, ..request(arrival, options, index) };
        let (engine, records, bar) = (engine.clone(), Arc::clone(&records), bar.clone());
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
            let tokens: usize = records.choices.iter().map(|choice| choice.gaps.len() + 1).sum();
            bar.set_message(tokens.to_string());
            bar.inc(1);
        };
        clients.spawn_on(client, runtime.handle());
    }
    runtime.block_on(clients.join_all());
    let duration = begin.elapsed();
    let mut records = std::mem::take(&mut *records.lock().unwrap_or_else(PoisonError::into_inner));
    records.duration = duration;
    records.stats = Some((before, engine.stats()));
    Ok(Report::of(records))
}

/// Ends of texts are ignored, so that outputs have the lengths of the trace.
fn request(arrival: &Arrival, options: &TraceOptions, index: usize) -> Request {
    let seed = options.seed.wrapping_add((index * options.choices) as u64);
    let temperature = if options.choices > 1 { 1.0 } else { 0.0 };
    Request {
        sampling: SamplingParams { seed, temperature, ..SamplingParams::default() },
        choices: options.choices,
        ignore_eos: true,
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
