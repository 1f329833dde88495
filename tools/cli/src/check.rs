//! `attn check`: compares kernels with the f64 reference over cases or a grid.

mod bit_exact;

use std::{collections::BTreeMap, process::ExitCode, time::Instant};

use anyhow::Result;
use attn_testing::{Case, CheckOptions, CheckResult, RunMode};
use indicatif::ProgressBar;
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
    /// Plans the replays of captured runs on the device, where it can plan the batch.
    #[arg(long, conflicts_with_all = ["list", "bit_exact", "wide_offsets"])]
    device_plans: bool,
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
    if args.list {
        return list(&cases, Output::new(global, &COLUMNS)?);
    }
    let mut report = Report::new(Output::new(global, &COLUMNS)?, cases.len() <= ROWS);
    let engine = args.device.engine(global)?;
    let device_plans = args.device_plans;
    let options = CheckOptions { max_cost: args.max_cost as u64, device_plans, ..CheckOptions::default() };
    let cheap = cases.iter().filter(|case| case.check_cost() <= options.max_cost);
    prepare::compile(&cheap.map(|case| (case, RunMode::AsIs)).collect::<Vec<_>>(), &engine, device_plans);
    let started = Instant::now();
    let bar = progress(cases.len());
    for case in &cases {
        bar.set_message(case.title().to_owned());
        match attn_testing::check_with(case, &engine, &options) {
            Ok(result) => report.checked(case, &result, &bar)?,
            Err(error) => report.cannot(case, &crate::output::causes(&error.into()), &bar)?,
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    let Report { output, passed, failed, cannot, worst, on_device, .. } = report;
    output.finish()?;
    worst.print();
    if device_plans {
        message!("{on_device} replays were planned on the device");
    }
    message!(
        "{} cases on {}: {passed} passed, {failed} failed, {cannot} could not be run ({:.1} s)",
        cases.len(),
        engine,
        started.elapsed().as_secs_f64()
    );
    Ok(if failed + cannot == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Prints the cases.
fn list(cases: &[Case], mut output: Output) -> Result<ExitCode> {
    for case in cases {
        output.record(&serde_json::to_value(case)?, || vec![case.title().to_owned(), case.kernel.clone()])?;
    }
    output.finish()?;
    Ok(ExitCode::SUCCESS)
}

const COLUMNS: [&str; 8] = ["case", "kernel", "rel_err", "row_err", "lse_err", "NaN", "rerun", "verdict"];

/// The outcomes of cases, written as they come.
struct Report {
    output: Output,
    /// Whether the table shows cases that pass, too.
    all_rows: bool,
    passed: usize,
    failed: usize,
    cannot: usize,
    worst: Worst,
    /// Replays that the device planned.
    on_device: usize,
}

impl Report {
    fn new(output: Output, all_rows: bool) -> Self {
        Report { output, all_rows, passed: 0, failed: 0, cannot: 0, worst: Worst::default(), on_device: 0 }
    }

    /// A case that ran.
    fn checked(&mut self, case: &Case, result: &CheckResult, bar: &ProgressBar) -> Result<()> {
        if result.passed {
            self.passed += 1;
        } else {
            self.failed += 1;
            bar.suspend(|| message!("FAILED {}: {}", case.title(), result.why()));
        }
        self.on_device += usize::from(result.planned_on_device);
        self.worst.record(case.title(), result);
        let record = with(serde_json::to_value(case)?, serde_json::to_value(result)?);
        if result.passed && !self.all_rows {
            return self.output.line(&record);
        }
        self.output.record(&record, || {
            let distance = &result.distance;
            vec![
                case.title().to_owned(),
                result.ran.clone(),
                figure(Some(distance.rel_err)),
                figure(Some(distance.row_err)),
                figure(Some(distance.lse_err)),
                distance.nan.to_string(),
                if result.rerun_identical { "same" } else { "DIFFERS" }.to_owned(),
                if result.passed { "ok" } else { "FAILED" }.to_owned(),
            ]
        })
    }

    /// A case that could not be run.
    fn cannot(&mut self, case: &Case, why: &str, bar: &ProgressBar) -> Result<()> {
        self.cannot += 1;
        bar.suspend(|| message!("CANNOT {}: {why}", case.title()));
        let record = with(serde_json::to_value(case)?, json!({ "cannot": why, "passed": false }));
        self.output.record(&record, || {
            let mut row = vec![case.title().to_owned(), case.kernel.clone()];
            row.resize(COLUMNS.len() - 1, String::new());
            row.push(format!("cannot: {why}"));
            row
        })
    }
}
