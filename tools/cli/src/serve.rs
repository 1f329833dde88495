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

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead as _, Write as _};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use attn::Engine;
use attn_testing::{Case, Prepared, RunMode, SharedResult, parse_json};
use serde::Deserialize;
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
    each_line(|line| answer(line, engine, variant, &mut state))
}

/// Answers each line of stdin that is not empty, until stdin ends.
pub(crate) fn each_line(mut answer: impl FnMut(&str) -> Result<Value, String>) -> Result<ExitCode> {
    let mut stdout = std::io::stdout();
    for line in std::io::stdin().lock().split(b'\n') {
        let line = line?;
        if line.trim_ascii().is_empty() {
            continue;
        }
        let text = std::str::from_utf8(&line).map_err(|error| format!("the line is not UTF-8: {error}"));
        let answer = text.and_then(&mut answer).unwrap_or_else(|why| json!({ "error": why }));
        writeln!(stdout, "{answer}")?;
        stdout.flush()?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A line: one of `prepare`, `time`, `share`, `compare` and `drop`, and what belongs to it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Message {
    prepare: Option<Value>,
    time: Option<String>,
    reps: Option<NonZeroUsize>,
    share: Option<Value>,
    folder: Option<PathBuf>,
    compare: Option<PathBuf>,
    drop: Option<bool>,
}

impl Message {
    fn check(&self) -> Result<(), String> {
        let Message { prepare, time, reps, share, folder, compare, drop } = self;
        let verbs = [prepare.is_some(), time.is_some(), share.is_some(), compare.is_some(), *drop == Some(true)];
        if verbs.into_iter().filter(|&verb| verb).count() != 1 {
            return Err("expected one of prepare, time, drop, share, compare".to_owned());
        }
        if reps.is_some() && time.is_none() {
            return Err("`reps` belongs to `time`".to_owned());
        }
        if folder.is_some() != share.is_some() {
            return Err("`share` needs a folder, and nothing else has one".to_owned());
        }
        Ok(())
    }
}

/// A case of a message, with the checks of a line of a case file.
fn case_of(case: &Value) -> Result<Case, String> {
    let mut cases = Case::parse_lines(&case.to_string()).map_err(|e| e.to_string())?;
    cases.pop().ok_or_else(|| "not a case".to_owned())
}

fn answer(line: &str, engine: &Engine, variant: Option<&str>, state: &mut State) -> Result<Value, String> {
    let runners = &mut state.runners;
    let message: Message = parse_json(line)?;
    message.check()?;
    if let Some(case) = &message.prepare {
        runners.clear(); // frees their memory first
        let (mut ready, mut cannot) = (Map::new(), Map::new());
        match case_of(case) {
            Err(e) => _ = cannot.insert(RunMode::AsIs.to_string(), e.into()),
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
    if let Some(runner) = &message.time {
        if runners.is_empty() {
            return Err("nothing is prepared".to_owned());
        }
        let prepared = runners.get_mut(runner).ok_or_else(|| format!("no runner `{runner}` is prepared"))?;
        let reps = message.reps.map_or(3, NonZeroUsize::get);
        let ms = prepared.time(reps, 1).map_err(|e| crate::output::causes(&e.into()))?;
        return Ok(json!({ "ms": ms }));
    }
    if let (Some(case), Some(folder)) = (&message.share, &message.folder) {
        (state.shared, state.runners) = (None, Runners::new());
        let shared = SharedResult::new(&case_of(case)?, engine, folder);
        let shared = shared.map_err(|e| crate::output::causes(&e.into()))?;
        let ran = shared.ran.clone();
        state.shared = Some(shared);
        return Ok(json!({ "shared": ran }));
    }
    if let Some(file) = &message.compare {
        let shared = state.shared.as_ref().ok_or("nothing is shared")?;
        let bytes = fs::read(file).map_err(|e| format!("cannot read {}: {e}", file.display()))?;
        let (distance, passed) = shared.compare(&bytes).map_err(|e| crate::output::causes(&e.into()))?;
        let (rel_err, row_err) = (distance.rel_err, distance.row_err);
        return Ok(json!({ "rel_err": rel_err, "row_err": row_err, "nan": distance.nan, "passed": passed }));
    }
    runners.clear();
    Ok(json!({ "dropped": true }))
}
