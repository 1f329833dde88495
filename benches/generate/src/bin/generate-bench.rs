//! Replays a trace of requests against an engine in this process, and prints latencies and throughput.
//!
//! ```text
//! cargo run --release -p generate-benches -- --trace uniform --requests 32
//! ```

#![allow(clippy::print_stdout)]

use clap::Parser;
use generate::{ModelArgs, Started};
use generate_benches::{replay, trace::TraceOptions};
use indicatif::{ProgressBar, ProgressStyle};

/// Replays a trace of requests, and prints latencies and throughput.
#[derive(Debug, Parser)]
#[command(version)]
struct Options {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten, next_help_heading = "Trace")]
    trace: TraceOptions,
    /// Requests that run before, and are not measured.
    #[arg(long, value_name = "REQUESTS", default_value_t = 4)]
    warmup: usize,
    /// Print all options and results as JSON.
    #[arg(long)]
    json: bool,
}

fn main() -> anyhow::Result<()> {
    let Options { model, trace, warmup, json } = Options::parse();
    let Started { engine, device, .. } = model.start(false, false)?;
    // what is wrong with the trace is said before the warm-up
    let limits = engine.model_limits();
    trace.draw(limits.vocab, limits.context)?;
    if warmup > 0 {
        let seed = trace.seed.wrapping_add(1);
        let warmup = TraceOptions { requests: warmup, rate: None, seed, ..trace.clone() };
        replay(&engine, &warmup, model.speculate, &ProgressBar::hidden())?;
    }
    // drawn on the standard error, and not at all if that is no terminal
    let bar = ProgressBar::new(trace.requests as u64);
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} requests, {msg} tokens, {elapsed}, {eta} left");
    bar.set_style(style.expect("a sound template"));
    let report = replay(&engine, &trace, model.speculate, &bar)?;
    bar.finish_and_clear();
    if json {
        let all = serde_json::json!({ "device": device, "model": model, "trace": trace, "results": report });
        println!("{}", serde_json::to_string_pretty(&all)?);
    } else {
        println!("{device}\n{report}");
    }
    anyhow::ensure!(report.failed == 0, "{} of {} requests failed", report.failed, trace.requests);
    Ok(())
}
