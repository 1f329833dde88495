//! `attn bench --serve`: the line protocol of the interleaved benchmark. Each line is a JSON object, and so is each
//! answer.
//!
//! ```text
//! {"prepare": CASE}            -> {"ready": {"attn": {..}}, "cannot": {"flat": why}}
//! {"time": "attn", "reps": N}  -> {"ms": median}
//! {"drop": true}               -> {"dropped": true}
//! {"share": CASE, "folder": F} -> {"shared": kernel}, with the tensors of the case in files of the folder
//! {"compare": FILE}            -> {"rel_err": .., "row_err": .., "nan": .., "passed": ..} of a peer's output over them
//! ```
//!
//! The runners are `attn`, which is the case as it is, and the run modes that the case names (`"ours_also": ["flat"]`).
//!
//! With `--variant EXPR` every case is prepared with that variant in place of its own. Another line is answered by
//! `{"error": why}`.

use std::{
    collections::HashMap,
    fs,
    io::{BufRead as _, Write as _},
    path::Path,
    process::ExitCode,
};

use anyhow::Result;
use attn::Engine;
use attn_testing::{Case, Prepared, RunMode, SharedResult};
use serde_json::{Map, Value, json};

/// The prepared runners, by the name of their run mode.
type Runners = HashMap<String, Prepared>;

/// What earlier lines left.
#[derive(Default)]
struct State {
    runners: Runners,
    shared: Option<SharedResult>,
}

/// Serves until stdin ends.
pub(crate) fn run(engine: &Engine, variant: Option<&str>) -> Result<ExitCode> {
    let mut state = State::default();
    let mut stdout = std::io::stdout();
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        if line.trim().is_empty() {
            continue;
        }
        let answer = answer(&line, engine, variant, &mut state).unwrap_or_else(|why| json!({ "error": why }));
        writeln!(stdout, "{answer}")?;
        stdout.flush()?;
    }
    Ok(ExitCode::SUCCESS)
}

fn answer(line: &str, engine: &Engine, variant: Option<&str>, state: &mut State) -> Result<Value, String> {
    let runners = &mut state.runners;
    let mut message: Value = serde_json::from_str(line).map_err(|e| format!("not JSON: {e}"))?;
    if let Some(case) = message.get_mut("prepare").map(Value::take) {
        runners.clear(); // frees their memory first
        let (mut ready, mut cannot) = (Map::new(), Map::new());
        match serde_json::from_value::<Case>(case) {
            Err(e) => _ = cannot.insert(RunMode::AsIs.to_string(), format!("not a case: {e}").into()),
            Ok(case) => {
                let case = Case { variant: variant.map_or(case.variant, str::to_owned), ..case };
                for mode in std::iter::once(RunMode::AsIs).chain(case.ours_also.iter().copied()) {
                    match Prepared::with_mode(&case, mode, engine) {
                        Ok(prepared) => {
                            let extra = serde_json::to_value(prepared.info()).unwrap_or(Value::Null);
                            ready.insert(mode.to_string(), extra);
                            runners.insert(mode.to_string(), prepared);
                        }
                        Err(e) => _ = cannot.insert(mode.to_string(), crate::output::causes(&e.into()).into()),
                    }
                }
            }
        }
        return Ok(json!({ "ready": ready, "cannot": cannot }));
    }
    if let Some(runner) = message.get("time") {
        let reps = message.get("reps").and_then(Value::as_u64).unwrap_or(3).max(1);
        if runners.is_empty() {
            return Err("nothing is prepared".to_owned());
        }
        let prepared = runner.as_str().and_then(|name| runners.get_mut(name));
        let prepared = prepared.ok_or_else(|| format!("no runner {runner} is prepared"))?;
        let ms = prepared.time(reps as usize, 1).map_err(|e| crate::output::causes(&e.into()))?;
        return Ok(json!({ "ms": ms }));
    }
    if let Some(case) = message.get_mut("share").map(Value::take) {
        (state.shared, state.runners) = (None, Runners::new());
        let case: Case = serde_json::from_value(case).map_err(|e| format!("not a case: {e}"))?;
        let folder = message["folder"].as_str().ok_or("`share` needs a folder")?;
        let shared = SharedResult::new(&case, engine, Path::new(folder));
        let shared = shared.map_err(|e| crate::output::causes(&e.into()))?;
        let ran = shared.ran.clone();
        state.shared = Some(shared);
        return Ok(json!({ "shared": ran }));
    }
    if let Some(file) = message.get("compare") {
        let file = file.as_str().ok_or("`compare` names a file")?;
        let shared = state.shared.as_ref().ok_or("nothing is shared")?;
        let bytes = fs::read(file).map_err(|e| format!("cannot read {file}: {e}"))?;
        let (distance, passed) = shared.compare(&bytes).map_err(|e| crate::output::causes(&e.into()))?;
        let (rel_err, row_err) = (distance.rel_err, distance.row_err);
        return Ok(json!({ "rel_err": rel_err, "row_err": row_err, "nan": distance.nan, "passed": passed }));
    }
    if message.get("drop").is_some() {
        runners.clear();
        return Ok(json!({ "dropped": true }));
    }
    Err("expected one of prepare, time, drop, share, compare".to_owned())
}
