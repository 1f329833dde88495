//! `attn check`.

mod same;

use std::{collections::BTreeMap, process::ExitCode, time::Instant};

use anyhow::Result;
use attn::testing::{self, CheckOptions, CheckResult};
use serde_json::json;

use crate::{
    Global,
    bench::Device,
    cases::Cases,
    output::{Output, figure, progress, with},
};

#[derive(clap::Args)]
pub(crate) struct Check {
    #[command(flatten)]
    cases: Cases,
    #[command(flatten)]
    device: Device,
    /// Cases whose reference takes more operations than this are not run.
    #[arg(long, value_name = "N", default_value_t = CheckOptions::default().max_cost as f64)]
    max_cost: f64,
    /// Prints the cases and runs nothing: for making case files.
    #[arg(long)]
    list: bool,
    /// Compares bits instead of distances: a case in every layout, with NaN or zeros beside its keys, over dirty workspaces, in graphs with room for more,
    /// and each request alone. Of some cases of its own unless others are named.
    #[arg(long, conflicts_with = "far")]
    same: bool,
    /// Runs kernels over a tensor of more than 2^32 elements instead, and compares bits with a small one; takes 10 GB of memory, and of the GPU's.
    #[arg(long)]
    far: bool,
}

/// Of more cases than this, a table shows those alone that do not pass.
const ROWS: usize = 100;

/// The largest error of each kind, as a share of what is allowed, and where it was.
#[derive(Default)]
struct Worst(BTreeMap<&'static str, (f64, String)>);

impl Worst {
    fn see(&mut self, title: &str, result: &CheckResult) {
        let (d, t) = (&result.distance, &result.tolerance);
        let mut shares =
            vec![("rel_err", d.rel_err, t.rel), ("row_err", d.row_err, t.row), ("lse_err", d.lse_err, t.lse)];
        shares.extend(result.stored.map(|stored| ("stored_err", stored.stored_err, t.row)));
        if let Some(u) = &result.unrounded {
            shares.push(("rel_err against unrounded rows (not judged)", u.rel_err, t.rel));
            shares.push(("lse_err against unrounded rows (not judged)", u.lse_err, t.lse));
        }
        for (name, is, may) in shares {
            let seen = self.0.entry(name).or_default();
            // NaN is worse than anything
            if seen.1.is_empty() || is.is_nan() || is / may > seen.0 {
                *seen = (is / may, format!("{is:.2e} of {may:.0e} in {title}"));
            }
        }
    }

    fn say(&self) {
        for (name, (share, what)) in &self.0 {
            eprintln!("largest {name}: {:.0} % of the tolerance ({what})", share * 100.0);
        }
    }
}

/// Checks every case; the exit code is 1 when one is outside tolerance or could not be run.
pub(crate) fn run(args: &Check, global: &Global) -> Result<ExitCode> {
    if args.far {
        return same::far(&args.device.engine()?, Output::new(global, &["run", "on", "elements", "verdict"])?);
    }
    if args.same {
        let cases = if args.cases.named() { args.cases.load()? } else { testing::grid::same() };
        return same::same(
            &cases,
            &args.device.engine()?,
            Output::new(global, &["case", "kernel", "pairs", "verdict"])?,
        );
    }
    let cases = args.cases.load()?;
    let columns = ["case", "kernel", "rel_err", "row_err", "lse_err", "NaN", "rerun", "verdict"];
    let mut output = Output::new(global, &columns)?;
    if args.list {
        for case in &cases {
            output.record(&serde_json::to_value(case)?, || vec![case.title().to_owned(), case.kernel.clone()])?;
        }
        output.finish()?;
        return Ok(ExitCode::SUCCESS);
    }
    let engine = args.device.engine()?;
    let options = CheckOptions { max_cost: args.max_cost as u64, ..CheckOptions::default() };
    let (mut passed, mut failed, mut cannot) = (0usize, 0usize, 0usize);
    let mut worst = Worst::default();
    let started = Instant::now();
    let bar = progress(cases.len());
    for case in &cases {
        bar.set_message(case.title().to_owned());
        let echo = serde_json::to_value(case)?;
        match testing::check_with(case, &engine, &options) {
            Ok(result) => {
                let verdict = if result.passed { "ok" } else { "FAILED" };
                if result.passed {
                    passed += 1;
                } else {
                    failed += 1;
                    bar.suspend(|| eprintln!("FAILED {}: {}", case.title(), result.why()));
                }
                let record = with(echo, serde_json::to_value(&result)?);
                worst.see(case.title(), &result);
                if result.passed && cases.len() > ROWS {
                    output.line(&record)?;
                    bar.inc(1);
                    continue;
                }
                output.record(&record, || {
                    let d = &result.distance;
                    let rerun = if result.rerun_identical { "same" } else { "DIFFERS" };
                    vec![
                        case.title().to_owned(),
                        result.ran.clone(),
                        figure(Some(d.rel_err)),
                        figure(Some(d.row_err)),
                        figure(Some(d.lse_err)),
                        d.nan.to_string(),
                        rerun.to_owned(),
                        verdict.to_owned(),
                    ]
                })?;
            }
            Err(error) => {
                cannot += 1;
                let why = crate::causes(&error.into());
                bar.suspend(|| eprintln!("CANNOT {}: {why}", case.title()));
                output.record(&with(echo, json!({ "cannot": why, "passed": false })), || {
                    let mut row = vec![case.title().to_owned(), case.kernel.clone()];
                    row.resize(7, String::new());
                    row.push(format!("cannot: {why}"));
                    row
                })?;
            }
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    output.finish()?;
    worst.say();
    eprintln!(
        "{} cases on {}: {passed} passed, {failed} failed, {cannot} could not be run ({:.1} s)",
        cases.len(),
        engine,
        started.elapsed().as_secs_f64()
    );
    Ok(if failed + cannot == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
