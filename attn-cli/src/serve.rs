//! `attn bench --serve`: the line protocol of race.py, one JSON object a line, answered by one a line.
//!
//! ```text
//! {"prepare": CASE}            -> {"ready": {"attn": {..}}, "cannot": {}}   or   {"ready": {}, "cannot": {"attn": why}}
//! {"time": "attn", "reps": N}  -> {"ms": median}
//! {"drop": true}               -> {"dropped": true}
//! ```
//!
//! With `--variant EXPR` every case is prepared with that variant in place of its own. A line that is none of these is answered by `{"error": why}`.

use std::{
    io::{BufRead as _, Write as _},
    process::ExitCode,
};

use anyhow::Result;
use attn::{
    Engine,
    testing::{Case, Prepared},
};
use serde_json::{Value, json};

/// The name of our only runner.
const RUNNER: &str = "attn";

/// Serves until stdin ends.
pub(crate) fn run(engine: &Engine, variant: Option<&str>) -> Result<ExitCode> {
    let mut held = None;
    let mut stdout = std::io::stdout();
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        if line.trim().is_empty() {
            continue;
        }
        let answer = answer(&line, engine, variant, &mut held).unwrap_or_else(|why| json!({ "error": why }));
        writeln!(stdout, "{answer}")?;
        stdout.flush()?;
    }
    Ok(ExitCode::SUCCESS)
}

fn answer(line: &str, engine: &Engine, variant: Option<&str>, held: &mut Option<Prepared>) -> Result<Value, String> {
    let mut message: Value = serde_json::from_str(line).map_err(|e| format!("not JSON: {e}"))?;
    if let Some(case) = message.get_mut("prepare").map(Value::take) {
        *held = None; // its memory first
        let prepared = serde_json::from_value::<Case>(case)
            .map_err(|e| format!("not a case: {e}"))
            .map(|case| Case { variant: variant.map_or(case.variant, str::to_owned), ..case })
            .and_then(|case| Prepared::new(&case, engine).map_err(|e| crate::causes(&e.into())));
        return Ok(match prepared {
            Ok(prepared) => {
                let extra = serde_json::to_value(prepared.info()).unwrap_or(Value::Null);
                *held = Some(prepared);
                json!({ "ready": { RUNNER: extra }, "cannot": {} })
            }
            Err(why) => json!({ "ready": {}, "cannot": { RUNNER: why } }),
        });
    }
    if let Some(runner) = message.get("time") {
        if runner != RUNNER {
            return Err(format!("no runner {runner}; there is \"{RUNNER}\""));
        }
        let reps = message.get("reps").and_then(Value::as_u64).unwrap_or(3).max(1);
        let prepared = held.as_mut().ok_or("nothing is prepared")?;
        let ms = prepared.time(reps as usize, 1).map_err(|e| crate::causes(&e.into()))?;
        return Ok(json!({ "ms": ms }));
    }
    if message.get("drop").is_some() {
        *held = None;
        return Ok(json!({ "dropped": true }));
    }
    Err("expected one of prepare, time, drop".to_owned())
}
