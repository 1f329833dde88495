//! `attn bench --sampling`: times of sampling by the line protocol of benches/baselines/sampling.py. Each line is a
//! JSON object, and so is each answer.
//!
//! ```text
//! {"prepare": CASE} -> {"ready": true}
//! {"time": REPS}    -> {"ms": median}
//! ```

use std::{
    io::{BufRead as _, Write as _},
    process::ExitCode,
};

use anyhow::Result;
use attn::Engine;
use attn_testing::{PreparedSampling, SamplingBenchCase};
use serde_json::{Value, json};

/// Serves until stdin ends.
pub(crate) fn run(engine: &Engine) -> Result<ExitCode> {
    let mut prepared = None;
    let mut stdout = std::io::stdout();
    for line in std::io::stdin().lock().lines() {
        let answer = answer(&line?, engine, &mut prepared).unwrap_or_else(|why| json!({ "error": why }));
        writeln!(stdout, "{answer}")?;
        stdout.flush()?;
    }
    Ok(ExitCode::SUCCESS)
}

fn answer(line: &str, engine: &Engine, prepared: &mut Option<PreparedSampling>) -> Result<Value, String> {
    let mut message: Value = serde_json::from_str(line).map_err(|e| format!("not JSON: {e}"))?;
    if let Some(case) = message.get_mut("prepare").map(Value::take) {
        *prepared = None; // frees its memory first
        let case: SamplingBenchCase = serde_json::from_value(case).map_err(|e| format!("not a case: {e}"))?;
        let new = PreparedSampling::new(&case, engine).map_err(|e| crate::output::causes(&e.into()))?;
        *prepared = Some(new);
        return Ok(json!({ "ready": true }));
    }
    let reps = message.get("time").and_then(Value::as_u64).ok_or("expected prepare or time")?;
    let prepared = prepared.as_mut().ok_or("nothing is prepared")?;
    let ms = prepared.time(reps as usize).map_err(|e| crate::output::causes(&e.into()))?;
    Ok(json!({ "ms": ms }))
}
