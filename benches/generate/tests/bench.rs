//! Traces replayed against an engine whose steps take a known time.

#[path = "../../../examples/generate/tests/serve/echo.rs"]
#[allow(dead_code)] // the tokenizer is for the server
mod echo;

use std::{
    process::{Command, Output},
    time::Duration,
};

use attn_needs::{Need, has};
use echo::Echo;
use generate::{
    engine::{Engine, EngineConfig, EngineHandle},
    model::fetch::model_file,
};
use generate_benches::{
    Report,
    trace::{Lengths, TraceOptions},
};
use indicatif::ProgressBar;
use serde_json::Value;

const STEP: Duration = Duration::from_millis(10);

fn engine(pages: usize, config: EngineConfig) -> EngineHandle {
    let engine = Engine::new(Echo::new(pages, STEP, false), config).expect("an engine");
    EngineHandle::spawn(engine).expect("a thread")
}

fn options() -> TraceOptions {
    TraceOptions {
        lengths: Lengths::Fixed,
        requests: 8,
        rate: None,
        input: 20,
        output: 5,
        shared_prefix: 0,
        choices: 1,
        seed: 0,
    }
}

fn replay(engine: &EngineHandle, options: &TraceOptions) -> Report {
    generate_benches::replay(engine, options, 0, &ProgressBar::hidden()).expect("a report")
}

/// Sleeping takes at least as long as asked, and a loaded machine makes it longer: bounds from above are wide.
fn within(value: f64, low: f64, high: f64) {
    assert!((low..high).contains(&value), "{value} is not in {low}..{high}");
}

#[test]
fn latencies_are_those_of_the_steps() {
    let engine = engine(256, EngineConfig::default());
    let bar = ProgressBar::hidden();
    let report = generate_benches::replay(&engine, &options(), 0, &bar).expect("a report");
    assert_eq!((report.completed, report.failed, bar.position()), (8, 0, 8));
    assert_eq!((report.prompt_tokens, report.output_tokens), (160, 40));
    // all prompts fit into one or two steps, and each further token is a step
    // a token that comes late on a busy machine is nearer to the next one
    within(report.itl_ms.expect("gaps").p50, 5.0, 40.0);
    within(report.ttft_ms.expect("tokens").p50, 10.0, 80.0);
    within(report.latency_ms.expect("tokens").mean, 50.0, 300.0);
    assert_eq!((report.itl_ms.expect("gaps").count, report.ttft_ms.expect("tokens").count), (32, 8));
    within(report.output_tokens_per_s, 40.0 / 0.5, 40.0 / 0.05);
    assert!((5..=12).contains(&report.steps), "{} steps", report.steps);
}

/// Where requests come faster than they are served, their latencies hold the time that they wait, and grow.
#[test]
fn waiting_is_part_of_a_latency() {
    // 8 pages hold 4 requests of 2 pages, and the queue holds one more
    let engine = engine(8, EngineConfig { max_waiting: 1, reuse_prefixes: false, ..EngineConfig::default() });
    let report = replay(&engine, &TraceOptions { requests: 24, ..options() });
    assert_eq!((report.completed, report.failed), (24, 0), "those that were refused came again");
    let ttft = report.ttft_ms.expect("tokens");
    // six rounds of four requests with five steps of 10 ms: the last ones wait for five rounds
    within(ttft.max, 5.0 * 5.0 * 10.0 - 50.0, 2000.0);
    within(ttft.mean, 60.0, 1000.0);
    // the benchmark itself was not late, although the engine was
    within(report.lateness_ms.expect("requests").p50, 0.0, 50.0);
}

#[test]
fn arrivals_follow_the_trace() {
    let engine = engine(256, EngineConfig::default());
    let report = replay(&engine, &TraceOptions { requests: 10, rate: Some(40.0), ..options() });
    // the last of ten arrivals at 40 per second, by this seed, and its five steps
    assert!(report.duration_s > 0.1, "{}", report.duration_s);
    within(report.ttft_ms.expect("tokens").p50, 10.0, 60.0);
}

#[test]
fn prefixes_and_choices_are_counted() {
    let engine = engine(256, EngineConfig::default());
    let options = TraceOptions { requests: 6, shared_prefix: 32, choices: 2, rate: Some(20.0), ..options() };
    let report = replay(&engine, &options);
    assert_eq!((report.completed, report.output_tokens, report.prompt_tokens), (6, 60, 6 * 52));
    assert!(report.cached_tokens >= 32 && report.cached_tokens.is_multiple_of(16), "{}", report.cached_tokens);
    let off = EngineConfig { reuse_prefixes: false, ..EngineConfig::default() };
    assert_eq!(replay(&self::engine(256, off), &options).cached_tokens, 0);
}

fn program(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_generate-bench"));
    command.args(["--device", "cpu", "--trace", "fixed", "--input", "20", "--output", "3", "--requests", "3"]);
    command.args(["--warmup", "0"]).args(words).output().expect("a process")
}

#[test]
fn a_trace_of_the_real_model_is_measured() {
    if !has(Need::Model, model_file(None)) {
        return;
    }
    let output = program(&["--shared-prefix", "32", "--json"]);
    assert!(output.status.success(), "{output:?}");
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let results = &json["results"];
    assert_eq!((&results["completed"], &results["output_tokens"]), (&3.into(), &9.into()));
    assert_eq!(results["itl_ms"]["count"], 6);
    assert_eq!((&json["trace"]["shared_prefix"], &json["model"]["device"]), (&32.into(), &"cpu".into()));
    let output = program(&["--rate", "0"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && error.contains("positive"), "{error}");
}
