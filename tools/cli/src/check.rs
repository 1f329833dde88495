//! `attn check`.

mod bit_exact;

use std::{collections::BTreeMap, process::ExitCode, time::Instant};

use anyhow::Result;
use attn_testing::{CheckOptions, CheckResult, RunMode};
use serde_json::json;

use crate::bench::Device;
use crate::cases::Cases;
use crate::global::Global;
use crate::output::{Output, check_distinct, figure, message, progress, with};
use crate::prepare;

#[derive(clap::Args)]
pub(crate) struct Check {
    #[command(flatten)]
    cases: Cases,
    #[command(flatten)]
    device: Device,
    /// Cases whose reference takes more operations than this are not run, and fail the check.
    #[arg(long, value_name = "N", default_value_t = CheckOptions::default().max_cost as f64, value_parser = cost,
        conflicts_with_all = ["list", "bit_exact", "wide_offsets"])]
    max_cost: f64,
    /// Prints the cases and runs nothing; with --json this is a case file.
    #[arg(long, conflicts_with_all = ["bit_exact", "wide_offsets", "Device"])]
    list: bool,
    /// Compares bits instead of distances: each case in every layout, with NaN or zeros beside its keys, over dirty
    /// workspaces, in graphs with more capacity, and each request alone. The default is a grid for this.
    #[arg(long, conflicts_with = "wide_offsets")]
    bit_exact: bool,
    /// Compares bits over a tensor of more than 2^32 elements with those of a small one. Needs 10 GB of memory on the
    /// host and on the GPU.
    #[arg(long, conflicts_with = "Cases")]
    wide_offsets: bool,
}

/// Parses a number of operations.
fn cost(text: &str) -> Result<f64, String> {
    let cost = text.parse::<f64>().ok().filter(|cost| *cost >= 0.0);
    cost.ok_or_else(|| format!("`{text}` is not a number of operations, such as 1e10"))
}

/// With more cases than this, the table shows only those that fail.
const ROWS: usize = 100;

/// The largest error of each kind, as a share of its tolerance, and its case.
#[derive(Default)]
struct Worst(BTreeMap<&'static str, (f64, String)>);

impl Worst {
    fn record(&mut self, title: &str, result: &CheckResult) {
        let (d, t) = (&result.distance, &result.tolerance);
        let mut shares =
            vec![("rel_err", d.rel_err, t.rel), ("row_err", d.row_err, t.row), ("lse_err", d.lse_err, t.lse)];
        shares.extend(result.stored.map(|stored| ("stored_err", stored.stored_err, t.row)));
        if let Some(u) = &result.unrounded {
            shares.push(("rel_err against unrounded rows (not judged)", u.rel_err, t.rel));
            shares.push(("lse_err against unrounded rows (not judged)", u.lse_err, t.lse));
        }
        for (name, error, tolerance) in shares {
            let seen = self.0.entry(name).or_default();
            // NaN counts as the largest error
            if seen.1.is_empty() || error.is_nan() || error / tolerance > seen.0 {
                *seen = (error / tolerance, format!("{error:.2e} of {tolerance:.0e} in {title}"));
            }
        }
    }

    fn print(&self) {
        for (name, (share, text)) in &self.0 {
            message!("largest {name}: {:.0} % of the tolerance ({text})", share * 100.0);
        }
    }
}

/// Checks every case. The exit code is 1 if a case is outside its tolerance or cannot be run.
pub(crate) fn run(args: &Check, global: &Global) -> Result<ExitCode> {
    check_distinct(args.cases.read().chain(global.out.iter().map(|file| ("--out", file))))?;
    if args.wide_offsets {
        return bit_exact::wide_offsets(
            &args.device.engine(global)?,
            Output::new(global, &["run", "on", "elements", "verdict"])?,
        );
    }
    if args.bit_exact {
        let cases = args.cases.load_or(attn_testing::grid::bit_exact())?;
        return bit_exact::check(
            &cases,
            &args.device.engine(global)?,
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
    let engine = args.device.engine(global)?;
    let options = CheckOptions { max_cost: args.max_cost as u64, ..CheckOptions::default() };
    let cheap = cases.iter().filter(|case| case.check_cost() <= options.max_cost);
    prepare::compile(&cheap.map(|case| (case, RunMode::AsIs)).collect::<Vec<_>>(), &engine);
    let (mut passed, mut failed, mut cannot) = (0usize, 0usize, 0usize);
    let mut worst = Worst::default();
    let started = Instant::now();
    let bar = progress(cases.len());
    for case in &cases {
        bar.set_message(case.title().to_owned());
        let echo = serde_json::to_value(case)?;
        match attn_testing::check_with(case, &engine, &options) {
            Ok(result) => {
                let verdict = if result.passed { "ok" } else { "FAILED" };
                if result.passed {
                    passed += 1;
                } else {
                    failed += 1;
                    bar.suspend(|| message!("FAILED {}: {}", case.title(), result.why()));
                }
                let record = with(echo, serde_json::to_value(&result)?);
                worst.record(case.title(), &result);
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
                let why = crate::output::causes(&error.into());
                bar.suspend(|| message!("CANNOT {}: {why}", case.title()));
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
    worst.print();
    message!(
        "{} cases on {}: {passed} passed, {failed} failed, {cannot} could not be run ({:.1} s)",
        cases.len(),
        engine,
        started.elapsed().as_secs_f64()
    );
    Ok(if failed + cannot == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
