//! `attn check --bit-exact` and `attn check --wide-offsets`: runs that must give the same bits.

use std::process::ExitCode;

use anyhow::Result;
use attn::Engine;
use attn_testing::{Case, RunMode, WIDE_OFFSET_ELEMENTS};
use serde_json::json;

use crate::output::{Output, message, progress, with};
use crate::prepare;

/// Compares the bits of each case over layouts and run modes.
pub(super) fn check(cases: &[Case], engine: &Engine, mut output: Output) -> Result<ExitCode> {
    let runs: Vec<Case> = cases.iter().flat_map(attn_testing::bit_exact_runs).collect();
    prepare::compile(&runs.iter().map(|case| (case, RunMode::AsIs)).collect::<Vec<_>>(), engine, false);
    let (mut passed, mut compared) = (0, 0);
    let bar = progress(cases.len());
    for case in cases {
        bar.set_message(case.title().to_owned());
        let echo = serde_json::to_value(case)?;
        let title = case.title().to_owned();
        match attn_testing::bit_exact(case, engine) {
            Ok(result) => {
                passed += usize::from(result.passed);
                compared += result.compared;
                let verdict = if result.passed { "same".to_owned() } else { result.different.join("; ") };
                if !result.passed {
                    bar.suspend(|| message!("DIFFERS {title}: {verdict}"));
                }
                let count = result.compared.to_string();
                output.record(&with(echo, serde_json::to_value(&result)?), || {
                    vec![title.clone(), result.ran.clone(), count.clone(), verdict.clone()]
                })?;
            }
            Err(error) => {
                let why = crate::output::causes(&error.into());
                bar.suspend(|| message!("CANNOT {title}: {why}"));
                output.record(&with(echo, json!({ "cannot": why, "passed": false })), || {
                    vec![title.clone(), case.kernel.clone(), String::new(), format!("cannot: {why}")]
                })?;
            }
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    output.finish()?;
    message!("{passed} of {} cases on {engine} give the same bits in {compared} pairs of runs", cases.len());
    Ok(if passed == cases.len() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Compares the bits of keys past 2^32 elements with those of a small tensor.
pub(super) fn wide_offsets(engine: &Engine, mut output: Output) -> Result<ExitCode> {
    let found = if engine.is_cpu() { None } else { attn_testing::wide_offsets(engine, WIDE_OFFSET_ELEMENTS)? };
    let Some(results) = found else {
        message!("skipped: {engine} has no memory for {WIDE_OFFSET_ELEMENTS} elements of 16 bits (a CPU is not asked)");
        output.finish()?;
        return Ok(ExitCode::SUCCESS);
    };
    for result in &results {
        let verdict = if result.passed { "same" } else { "DIFFERS" };
        output.record(&serde_json::to_value(result)?, || {
            vec![result.name.clone(), engine.to_string(), result.elements.to_string(), verdict.to_owned()]
        })?;
    }
    output.finish()?;
    let passed = results.iter().filter(|result| result.passed).count();
    message!("{passed} of {} runs over {WIDE_OFFSET_ELEMENTS} elements give the bits of small tensors", results.len());
    Ok(if passed == results.len() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
