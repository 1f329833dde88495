//! `attn calibrate`: measures the planner's costs of each kernel on a GPU, as rows of the cost table.
//!
//! Batches of equal tiles for all workers give the time of a tile, of a block of its keys, and of a block that several
//! tiles read (least squares, [`fit`]). The time of a merge is a difference: one request cut into KV splits, minus as
//! many requests of one split each. Every figure is a median of graph replays with a cold L2, as in `attn bench`.

mod batches;
mod fit;
mod measured_kernel;

use std::{process::ExitCode, time::Instant};

use anyhow::{Context as _, Result, bail};
use attn::{AttentionOptions, Engine};
use attn_core::spec::KernelKind;
use attn_kernels::cuda::driver;
use attn_testing::{SharedTensors, case_variant};
use regex::Regex;
use serde_json::{Value, json};

use crate::{
    bench,
    date::today,
    global::Global,
    output::{Output, figure, progress},
};
use batches::{ALONE, SHARED, SPLIT_KEYS, STATES};
use measured_kernel::{KV_HEADS, MeasuredKernel};

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
    /// Prints a case for each kernel instead of measuring it. With --json this is a file for `attn compile --cases`.
    #[arg(long, alias = "dry-run")]
    cases: bool,
}

/// The tensors hold batches for this number of CTAs a multiprocessor.
const MAX_CTAS: u32 = 4;
/// Runs before the timed ones.
const WARM_UP: usize = 3;

/// Measures every kernel, or prints their cases. The exit code is 1 if a kernel cannot be measured.
pub(crate) fn run(args: &Calibrate, global: &Global) -> Result<ExitCode> {
    let chosen =
        |kernel: &MeasuredKernel| args.pattern.as_ref().is_none_or(|pattern| pattern.is_match(&kernel.to_string()));
    let groups: Vec<Vec<MeasuredKernel>> = [128, 64, 256]
        .into_iter()
        .flat_map(|head_dim| [16, 8, 32].map(|bits| MeasuredKernel::over(head_dim, bits)))
        .map(|group| group.into_iter().filter(chosen).collect())
        .filter(|group: &Vec<MeasuredKernel>| !group.is_empty())
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
    let columns =
        ["kernel", "launch", "item", "block", "first", "merge_launch", "merge", "off by", "CTAs an SM", "seconds"];
    let mut output = Output::new(global, &columns)?;
    let (driver_major, driver_minor) = driver::version()?;
    output.line(&json!({ "about": {
        "arch": format!("sm_{major}{minor}"),
        "device": device.name(),
        "driver": format!("CUDA {driver_major}.{driver_minor}"),
        "commit": args.commit,
        "date": today(),
        "method": format!(
            "attn calibrate: {QO}/{KV_HEADS} heads, pages of 16, cold L2, graph replay, medians of {}; \
             nanoseconds of a CTA with the device full, {} keys a block",
            args.reps, attn_kernels::cost::COST_KEYS, QO = measured_kernel::QO_HEADS
        ),
    }}))?;
    let workers = device.multiprocessors() * MAX_CTAS / KV_HEADS;
    let bar = progress(count);
    let (started, mut failed) = (Instant::now(), 0usize);
    for group in &groups {
        let mut tensors = tensors(&engine, group, workers)?;
        for kernel in group {
            bar.set_message(kernel.to_string());
            let start = Instant::now();
            match measure(&engine, &mut tensors, kernel, args.reps) {
                Ok(row) => {
                    let seconds = start.elapsed().as_secs_f64();
                    output.record(&row, || table_row(kernel, &row, seconds))?;
                }
                Err(error) => {
                    failed += 1;
                    let why = crate::output::causes(&error);
                    bar.suspend(|| eprintln!("attn: {kernel}: {why}"));
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

fn print_cases(all: &[MeasuredKernel], global: &Global) -> Result<ExitCode> {
    let mut output = Output::new(global, &["case", "variant", "kernel", "keys", "head_dim"])?;
    for kernel in all {
        let case = kernel.case(MeasuredKernel::queries(kernel.rows), SPLIT_KEYS);
        output.record(&serde_json::to_value(&case)?, || {
            let (kind, head_dim) = (case.kernel.clone(), case.head_dim.to_string());
            vec![case.title().to_owned(), case.variant.clone(), kind, kernel.kv().to_owned(), head_dim]
        })?;
    }
    output.finish()?;
    Ok(ExitCode::SUCCESS)
}

/// Tensors for all batches of these kernels, which have head_dim and types in common.
fn tensors(engine: &Engine, group: &[MeasuredKernel], workers: u32) -> Result<SharedTensors> {
    let first = group.first().context("an empty group")?;
    let rows = group.iter().map(|kernel| kernel.rows).max().unwrap_or(first.rows);
    let (queries, keys) = batches::max_tokens(workers, MeasuredKernel::queries(rows));
    Ok(SharedTensors::new(&first.case(queries, keys), engine)?)
}

/// Measures a kernel: a row of the cost table.
fn measure(engine: &Engine, tensors: &mut SharedTensors, kernel: &MeasuredKernel, reps: usize) -> Result<Value> {
    let case = kernel.case(1, 1);
    let variant = case_variant(&case)?;
    let options = AttentionOptions {
        kernel: Some(kernel.kind),
        prefill: kernel.prefill,
        decode: Some(kernel.decode()),
        ..AttentionOptions::default()
    };
    let attention = engine.attention_with(&variant, case.heads(), case.dtypes()?, options)?;
    let (rows, resident) = {
        let probe = tensors.prepare(&attention, &[MeasuredKernel::queries(kernel.rows)], &[SPLIT_KEYS])?;
        let built = probe.plan().kernel().context("a plan of another backend")?;
        let traits = built.traits();
        if traits.is_sm90_prefill() != kernel.is_sm90_prefill() || traits.cuda_cores != kernel.cuda_cores() {
            bail!("this GPU has no such kernel");
        }
        (traits.tile_rows, built.resident_ctas())
    };
    if kernel.kind == KernelKind::Decode && rows != kernel.rows {
        bail!("a tile has {rows} rows");
    }
    let queries = MeasuredKernel::queries(rows);
    let workers = (resident / KV_HEADS).max(1);
    let shared = if kernel.shares_keys() { &SHARED[..] } else { &[] };
    let mut runs = Vec::new();
    for work in ALONE.iter().chain(shared) {
        let (qo, kv) = work.lens(workers, queries);
        let ms = tensors.prepare(&attention, &qo, &kv)?.time(reps, WARM_UP)?;
        runs.push((*work, ms * 1e6));
    }
    let fixed = AttentionOptions { fixed_split_size: Some(SPLIT_KEYS), ..options };
    let split = engine.attention_with(&variant, case.heads(), case.dtypes()?, fixed)?;
    let mut merges = Vec::new();
    for states in STATES.into_iter().filter(|&states| states <= workers) {
        let keys = vec![SPLIT_KEYS; states as usize];
        let separate = tensors.prepare(&split, &vec![queries; keys.len()], &keys)?.time(reps, WARM_UP)?;
        let merged = tensors.prepare(&split, &[queries], &[states * SPLIT_KEYS])?.time(reps, WARM_UP)?;
        merges.push((f64::from(states), (merged - separate) * 1e6));
    }
    let device = engine.device().context("a device")?;
    let (fitted, merged) = (fit::work(&runs), fit::merge(&merges));
    let rounded = |ns: f64| ns.round().max(0.0) as u64;
    let mut row = json!({
        "kernel": kernel.kind.to_string(),
        "rows": rows,
        "kv": kernel.kv(),
        "head_dim": kernel.head_dim,
        "hooks": kernel.hooks.name(),
        "ctas_per_sm": resident / device.multiprocessors().max(1),
        "launch": rounded(fitted.launch),
        "item": rounded(fitted.item),
        "block": rounded(fitted.block),
        "first": rounded(fitted.first),
        "merge_launch": rounded(merged.merge_launch),
        "merge": rounded(merged.merge),
        "off": (fitted.off * 1e3).round() / 1e3,
        "us": runs.iter().map(|(_, ns)| (ns / 10.0).round() / 100.0).collect::<Vec<_>>(),
        "merge_us": merges.iter().map(|(_, ns)| (ns / 10.0).round() / 100.0).collect::<Vec<_>>(),
    });
    if let Some(backend) = kernel.backend() {
        row["backend"] = json!(backend);
    }
    Ok(row)
}

fn table_row(kernel: &MeasuredKernel, row: &Value, seconds: f64) -> Vec<String> {
    let costs = ["launch", "item", "block", "first", "merge_launch", "merge"].map(|name| row[name].to_string());
    let mut cells = vec![kernel.to_string()];
    cells.extend(costs);
    cells.extend([format!("{:.1} %", row["off"].as_f64().unwrap_or(0.0) * 100.0), row["ctas_per_sm"].to_string()]);
    cells.push(figure(Some(seconds)));
    cells
}
