//! `generate --bench`.

use std::sync::Arc;

use generate::bench::{Lengths, OnProgress, Progress, TraceOptions, draw, run as replay};
use indicatif::{ProgressBar, ProgressStyle};

use super::model::{ModelArgs, Started};

/// The lengths of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Trace {
    /// Log-normal lengths with the means of ShareGPT: 215 tokens of prompt, 197 to generate.
    Sharegpt,
    /// Prompts of 512 to 2048 tokens, --output tokens to generate.
    Uniform,
    /// --input tokens of prompt, --output tokens to generate.
    Fixed,
}

/// What is replayed.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct BenchArgs {
    /// Lengths of prompts and texts.
    #[arg(long, value_enum, default_value = "sharegpt")]
    trace: Trace,
    /// Requests.
    #[arg(long, default_value_t = 64)]
    requests: usize,
    /// Requests per second, at random times (Poisson); by default all come at once.
    #[arg(long, value_name = "PER SECOND")]
    rate: Option<f64>,
    /// Tokens of a prompt, for --trace fixed.
    #[arg(long, value_name = "TOKENS", default_value_t = 512)]
    input: usize,
    /// Tokens to generate, for --trace uniform and fixed.
    #[arg(long, value_name = "TOKENS", default_value_t = 128)]
    output: usize,
    /// Tokens that all prompts begin with, beside their own.
    #[arg(long, value_name = "TOKENS", default_value_t = 0)]
    shared_prefix: usize,
    /// The seed of the trace.
    #[arg(long, default_value_t = 0)]
    trace_seed: u64,
    /// Requests that run before, and are not measured.
    #[arg(long, value_name = "REQUESTS", default_value_t = 4)]
    warmup: usize,
    /// Print all options and results as JSON.
    #[arg(long)]
    json: bool,
}

impl BenchArgs {
    fn options(&self, choices: usize, speculate: usize) -> TraceOptions {
        let lengths = match self.trace {
            Trace::Sharegpt => Lengths::Sharegpt,
            Trace::Uniform => Lengths::Uniform { low: 512, high: 2048, output: self.output },
            Trace::Fixed => Lengths::Fixed { prompt: self.input, output: self.output },
        };
        TraceOptions {
            requests: self.requests,
            lengths,
            rate: self.rate,
            shared_prefix: self.shared_prefix,
            choices,
            speculate,
            seed: self.trace_seed,
        }
    }
}

pub(crate) fn run(model: &ModelArgs, args: &BenchArgs, choices: usize) -> anyhow::Result<()> {
    let Started { engine, device, .. } = model.start(false, false)?;
    let options = args.options(choices, model.speculate);
    // what is wrong with the trace is said before the warm-up
    let limits = engine.model_limits();
    draw(&options, limits.vocab, limits.context)?;
    if args.warmup > 0 {
        let seed = options.seed.wrapping_add(1);
        let warmup = TraceOptions { requests: args.warmup, rate: None, seed, ..options.clone() };
        let quiet: Arc<OnProgress> = Arc::new(|_| {});
        replay(&engine, &warmup, &quiet)?;
    }
    // drawn on the standard error, and not at all if that is no terminal
    let bar = ProgressBar::new(options.requests as u64);
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} requests, {msg} tokens, {elapsed}, {eta} left");
    bar.set_style(style.expect("a sound template"));
    let shown = bar.clone();
    let progress: Arc<OnProgress> = Arc::new(move |Progress { ended, tokens }| {
        shown.set_message(tokens.to_string());
        shown.set_position(ended as u64);
    });
    let report = replay(&engine, &options, &progress)?;
    bar.finish_and_clear();
    if args.json {
        let all = serde_json::json!({ "device": device, "model": model, "trace": options, "results": report });
        println!("{}", serde_json::to_string_pretty(&all)?);
    } else {
        println!("{device}\n{report}");
    }
    anyhow::ensure!(report.failed == 0, "{} of {} requests failed", report.failed, options.requests);
    Ok(())
}
