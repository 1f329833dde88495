//! `attn calibrate`: what work costs each kernel on a GPU, measured, as rows of a table.
//!
//! For each kernel, batches of equal tiles for all workers give the time of a tile, of its keys, and of keys that several tiles read (least squares, [`fit`]); one
//! request cut into a number of pieces, against as many requests of that length, gives the time of a merge. Every figure is a median of
//! replays with a cold second-level cache, as `attn bench` takes it.

mod batches;
mod cells;
mod fit;

use std::{
    process::ExitCode,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context as _, Result, bail};
use attn::{
    AttentionOptions, Engine,
    testing::{SharedTensors, case_variant},
};
use attn_core::spec::KernelKind;
use attn_kernels::cuda::driver;
use regex::Regex;
use serde_json::{Value, json};

use crate::{
    Global, bench,
    output::{Output, figure, progress},
};
use batches::{ALONE, PIECE_KEYS, SHARED, STATES};
use cells::{KV_HEADS, Wanted};

#[derive(clap::Args)]
pub(crate) struct Calibrate {
    #[command(flatten)]
    device: bench::Device,
    /// Timed runs of each batch; the median counts.
    #[arg(long, default_value_t = 15)]
    reps: usize,
    /// Only kernels whose name matches, such as `decode of 8 rows, 16-bit keys, head_dim 128, none`.
    #[arg(long = "match", value_name = "REGEX")]
    pattern: Option<Regex>,
    /// The commit that this program was built from, for the table.
    #[arg(long, value_name = "HASH", required_unless_present = "cases")]
    commit: Option<String>,
    /// Measures nothing: prints a case for each kernel, so that `attn compile --cases FILE` makes them ready. Needs no GPU.
    #[arg(long, alias = "dry-run")]
    cases: bool,
}

/// CTAs of a multiprocessor that tensors are made large enough for.
const MOST_CTAS: u32 = 4;
const WARM: usize = 3;

/// Measures every kernel, or prints their cases. A kernel that cannot be measured says why; then the exit code is 1.
pub(crate) fn run(args: &Calibrate, global: &Global) -> Result<ExitCode> {
    let chosen = |wanted: &Wanted| args.pattern.as_ref().is_none_or(|pattern| pattern.is_match(&wanted.to_string()));
    let groups: Vec<Vec<Wanted>> = [128, 64, 256]
        .into_iter()
        .flat_map(|head_dim| [false, true].map(|fp8| Wanted::over(head_dim, fp8)))
        .map(|group| group.into_iter().filter(chosen).collect())
        .filter(|group: &Vec<Wanted>| !group.is_empty())
        .collect();
    let count: usize = groups.iter().map(Vec::len).sum();
    if count == 0 {
        bail!("no kernel has such a name; `attn calibrate --cases` prints all of them");
    }
    if args.cases {
        return print_cases(&groups.concat(), global);
    }
    let engine = args.device.engine()?;
    let Some(device) = engine.device() else {
        bail!("{engine}: costs are of GPUs; `attn doctor` says what is missing");
    };
    let (major, minor) = device.capability();
    let columns = ["kernel", "launch", "piece", "block", "first", "merge", "spread", "off by", "CTAs an SM", "seconds"];
    let mut output = Output::new(global, &columns)?;
    let (driver_major, driver_minor) = driver::version()?;
    output.line(&json!({ "about": {
        "arch": format!("sm_{major}{minor}"),
        "device": device.name(),
        "driver": format!("CUDA {driver_major}.{driver_minor}"),
        "commit": args.commit,
        "date": today(),
        "method": format!(
            "attn calibrate: {QO}/{KV_HEADS} heads, pages of 16, cold L2, graph replay, medians of {}; nanoseconds of a CTA with the device full, \
             {} keys a block",
            args.reps, attn_kernels::cost::COST_KEYS, QO = cells::QO_HEADS
        ),
    }}))?;
    let workers = device.multiprocessors() * MOST_CTAS / KV_HEADS;
    let bar = progress(count);
    let (started, mut failed) = (Instant::now(), 0usize);
    for group in &groups {
        let mut tensors = tensors(&engine, group, workers)?;
        for wanted in group {
            bar.set_message(wanted.to_string());
            let begun = Instant::now();
            match measure(&engine, &mut tensors, wanted, args.reps) {
                Ok(row) => {
                    let seconds = begun.elapsed().as_secs_f64();
                    output.record(&row, || table_row(wanted, &row, seconds))?;
                }
                Err(error) => {
                    failed += 1;
                    let why = crate::causes(&error);
                    bar.suspend(|| eprintln!("attn: {wanted}: {why}"));
                }
            }
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    output.finish()?;
    eprintln!("{} of {count} kernels measured on {engine} in {:.0} s", count - failed, started.elapsed().as_secs_f64());
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print_cases(all: &[Wanted], global: &Global) -> Result<ExitCode> {
    let mut output = Output::new(global, &["case", "variant", "kernel", "keys", "head_dim"])?;
    for wanted in all {
        let case = wanted.case(Wanted::queries(wanted.rows), PIECE_KEYS);
        output.record(&serde_json::to_value(&case)?, || {
            let (kernel, head_dim) = (case.kernel.clone(), case.head_dim.to_string());
            vec![case.title().to_owned(), case.variant.clone(), kernel, wanted.kv().to_owned(), head_dim]
        })?;
    }
    output.finish()?;
    Ok(ExitCode::SUCCESS)
}

/// Tensors for all batches of these kernels, which have their head_dim and types in common.
fn tensors(engine: &Engine, group: &[Wanted], workers: u32) -> Result<SharedTensors> {
    let first = group.first().context("an empty group")?;
    let rows = group.iter().map(|wanted| wanted.rows).max().unwrap_or(first.rows);
    let (queries, keys) = batches::most(workers, Wanted::queries(rows));
    Ok(SharedTensors::new(&first.case(queries, keys), engine)?)
}

/// A row of the table.
fn measure(engine: &Engine, tensors: &mut SharedTensors, wanted: &Wanted, reps: usize) -> Result<Value> {
    let case = wanted.case(1, 1);
    let variant = case_variant(&case)?;
    let options =
        AttentionOptions { kernel: Some(wanted.kind), prefill: wanted.template, ..AttentionOptions::default() };
    let attention = engine.attention_with(&variant, case.heads(), case.dtypes()?, options)?;
    let (rows, resident) = {
        let probe = tensors.prepare(&attention, &[Wanted::queries(wanted.rows)], &[PIECE_KEYS])?;
        let plan = probe.plan().as_cuda().context("a plan of another backend")?;
        let cell = plan.kernel().cell();
        if cell.in_warpgroups() != wanted.in_warpgroups() {
            bail!("this GPU has no such kernel");
        }
        (cell.tile_rows, plan.kernel().resident_ctas())
    };
    if wanted.kind == KernelKind::Decode && rows != wanted.rows {
        bail!("a tile has {rows} rows");
    }
    let queries = Wanted::queries(rows);
    let workers = (resident / KV_HEADS).max(1);
    let shared = if wanted.shares_keys() { &SHARED[..] } else { &[] };
    let mut runs = Vec::new();
    for work in ALONE.iter().chain(shared) {
        let (qo, kv) = work.lens(workers, queries);
        let ms = tensors.prepare(&attention, &qo, &kv)?.time(reps, WARM)?;
        runs.push((*work, ms * 1e6));
    }
    let fixed = AttentionOptions { batch_invariant: Some(PIECE_KEYS), ..options };
    let cut = engine.attention_with(&variant, case.heads(), case.dtypes()?, fixed)?;
    let mut merges = Vec::new();
    for states in STATES.into_iter().filter(|&states| states <= workers) {
        let alone = vec![PIECE_KEYS; states as usize];
        let apart = tensors.prepare(&cut, &vec![queries; alone.len()], &alone)?.time(reps, WARM)?;
        let merged = tensors.prepare(&cut, &[queries], &[states * PIECE_KEYS])?.time(reps, WARM)?;
        merges.push((f64::from(states), (merged - apart) * 1e6));
    }
    let device = engine.device().context("a device")?;
    let (fitted, merged) = (fit::work(&runs), fit::merge(&merges));
    let whole = |ns: f64| ns.round().max(0.0) as u64;
    let mut row = json!({
        "kernel": wanted.kind.to_string(),
        "rows": rows,
        "kv": wanted.kv(),
        "head_dim": wanted.head_dim,
        "hooks": wanted.hooks.name(),
        "ctas_per_sm": resident / device.multiprocessors().max(1),
        "launch": whole(fitted.launch),
        "piece": whole(fitted.piece),
        "block": whole(fitted.block),
        "first": whole(fitted.first),
        "merge": whole(merged.merge),
        "spread": whole(merged.spread),
        "off": (fitted.off * 1e3).round() / 1e3,
        "us": runs.iter().map(|(_, ns)| (ns / 10.0).round() / 100.0).collect::<Vec<_>>(),
        "merge_us": merges.iter().map(|(_, ns)| (ns / 10.0).round() / 100.0).collect::<Vec<_>>(),
    });
    if wanted.in_warpgroups() {
        row["template"] = json!(wanted.template.to_string());
    }
    Ok(row)
}

fn table_row(wanted: &Wanted, row: &Value, seconds: f64) -> Vec<String> {
    let costs = ["launch", "piece", "block", "first", "merge", "spread"].map(|name| row[name].to_string());
    let mut cells = vec![wanted.to_string()];
    cells.extend(costs);
    cells.extend([format!("{:.1} %", row["off"].as_f64().unwrap_or(0.0) * 100.0), row["ctas_per_sm"].to_string()]);
    cells.push(figure(Some(seconds)));
    cells
}

/// The date, in UTC.
fn today() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    date(seconds / 86_400)
}

/// The date of so many days after 1970-01-01.
fn date(mut days: u64) -> String {
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while days >= lengths[month] {
        days -= lengths[month];
        month += 1;
    }
    format!("{year}-{:02}-{:02}", month + 1, days + 1)
}

#[cfg(test)]
mod tests {
    use super::date;

    #[test]
    fn days_are_dates() {
        for (days, text) in [
            (0, "1970-01-01"),
            (58, "1970-02-28"),
            (59, "1970-03-01"),
            (11_016, "2000-02-29"),
            (19_782, "2024-02-29"),
            (20_088, "2024-12-31"),
            (20_089, "2025-01-01"),
        ] {
            assert_eq!(date(days), text);
        }
    }
}
