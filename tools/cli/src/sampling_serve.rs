//! `attn bench --sampling`: times of sampling by the line protocol of benches/baselines/sampling.py. Each line is a
//! JSON object, and so is each answer.
//!
//! ```text
//! {"prepare": CASE} -> {"ready": true}
//! {"time": REPS}    -> {"ms": median}
//! ```

use std::{num::NonZeroUsize, process::ExitCode};

use anyhow::Result;
use attn::Engine;
use attn_testing::{PreparedSampling, SamplingBenchCase, parse_json};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::serve::each_line;

/// Serves until stdin ends.
pub(crate) fn run(engine: &Engine) -> Result<ExitCode> {
    let mut prepared = None;
    each_line(|line| answer(line, engine, &mut prepared))
}

/// A line: one of both.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Message {
    prepare: Option<SamplingBenchCase>,
    time: Option<NonZeroUsize>,
}

fn answer(line: &str, engine: &Engine, prepared: &mut Option<PreparedSampling>) -> Result<Value, String> {
    match parse_json(line)? {
        Message { prepare: Some(case), time: None } => {
            *prepared = None; // frees its memory first
            let new = PreparedSampling::new(&case, engine).map_err(|e| crate::output::causes(&e.into()))?;
            *prepared = Some(new);
            Ok(json!({ "ready": true }))
        }
        Message { prepare: None, time: Some(reps) } => {
            let prepared = prepared.as_mut().ok_or("nothing is prepared")?;
            let ms = prepared.time(reps.get()).map_err(|e| crate::output::causes(&e.into()))?;
            Ok(json!({ "ms": ms }))
        }
        _ => Err("expected one of prepare and time".to_owned()),
    }
}
