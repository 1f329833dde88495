//! `attn calibrate`: measures the planner's costs of each kernel on a GPU, as rows of the cost table.
//!
//! Batches of equal tiles for all workers give the time of a tile, of a block of its keys, and of a block that several
//! tiles read (least squares, [`fit`]). The time of a merge is a difference: one request cut into KV splits, minus as
//! many requests of one split each. Every figure is a median of graph replays with a cold L2, as in `attn bench`.

mod batches;
mod fit;
mod measured_kernel;
mod rows;

use std::{num::NonZeroUsize, process::ExitCode, time::Instant};

use anyhow::{Context as _, Result, bail};
use attn::{AttentionOptions, Engine};
use attn_core::spec::KernelKind;
use attn_kernels::{compile::Arch, cost::steps_of_merge};
use attn_testing::{SharedTensors, case_variant};
use regex::Regex;
use serde_json::Value;

use crate::bench;
use crate::global::Global;
use crate::output::{Output, figure, message, progress};
use batches::{ALONE, SHARED, SPLIT_KEYS, STATES};
use measured_kernel::{KV_HEADS, MeasuredKernel};

#[derive(clap::Args)]
pub(crate) struct Calibrate {
    #[command(flatten)]
    device: bench::Device,
    /// Timed runs of each batch; the median counts.
    #[arg(long, value_name = "N", default_value = "15")]
    reps: NonZeroUsize,
    /// Only kernels whose name matches, such as `decode of 8 rows, 16-bit keys, head_dim 128, none`.
    #[arg(long = "match", value_name = "REGEX")]
    pattern: Option<Regex>,
    /// The commit that this program was built from, for the file. The default is the version.
    #[arg(long, value_name = "HASH")]
    commit: Option<String>,
    /// Prints a case for each kernel of any GPU instead of measuring. With --json it is a file for `attn compile
    /// --cases`.
    #[arg(long, alias = "dry-run", conflicts_with_all = ["Device", "reps", "commit"])]
    cases: bool,
}

/// The tensors hold batches for this number of CTAs a multiprocessor.
const MAX_CTAS: u32 = 4;
/// Runs before the timed ones.
const WARM_UP: usize = 3;

/// Measures every kernel, or prints their cases. The exit code is 1 if a kernel cannot be measured.
pub(crate) fn run(args: &Calibrate, global: &Global) -> Result<ExitCode> {
    if args.cases {
        return print_cases(&groups(args, |_| true)?.concat(), global);
    }
    let engine = args.device.engine(global)?;
    let Some(device) = engine.device() else {
        bail!("{engine}: costs are of GPUs; `attn doctor` says what is missing");
    };
    let (major, minor) = device.capability();
    let has_wgmma = Arch::for_device(major, minor).has_wgmma();
    let reps = args.reps.get();
    let groups = groups(args, |kernel| has_wgmma || !kernel.is_sm90_prefill())?;
    let count: usize = groups.iter().map(Vec::len).sum();
    let columns =
        ["kernel", "launch", "item", "block", "first", "merge_launch", "merge", "off by", "CTAs an SM", "seconds"];
    let mut output = Output::new(global, &columns)?;
    let about = rows::about(device, args.commit.as_deref(), reps)?;
    output.line(&about)?;
    let workers = device.multiprocessors() * MAX_CTAS / KV_HEADS;
    let bar = progress(count);
    let (started, mut failed) = (Instant::now(), 0usize);
    for group in &groups {
        let mut tensors = tensors(&engine, group, workers)?;
        for kernel in group {
            bar.set_message(kernel.to_string());
            let start = Instant::now();
            let measured = measure(&engine, &mut tensors, kernel, reps);
            match measured.and_then(|row| rows::check(&about, &row).map(|()| row)) {
                Ok(row) => {
                    let seconds = start.elapsed().as_secs_f64();
                    output.record(&row, || table_row(kernel, &row, seconds))?;
                }
                Err(error) => {
                    failed += 1;
                    let why = crate::output::causes(&error);
                    bar.suspend(|| message!("attn: {kernel}: {why}"));
                }
            }
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    output.finish()?;
    message!("{} of {count} kernels measured on {engine} in {:.0} s", count - failed, started.elapsed().as_secs_f64());
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The kernels that the command line names, of those that a GPU has, by the tensors that they run on.
fn groups(args: &Calibrate, has: impl Fn(&MeasuredKernel) -> bool) -> Result<Vec<Vec<MeasuredKernel>>> {
    let chosen =
        |kernel: &MeasuredKernel| args.pattern.as_ref().is_none_or(|pattern| pattern.is_match(&kernel.to_string()));
    let all =
        [128, 64, 256].into_iter().flat_map(|head_dim| [16, 8, 32].map(|bits| MeasuredKernel::over(head_dim, bits)));
    let groups: Vec<Vec<MeasuredKernel>> = all
        .map(|group| group.into_iter().filter(|kernel| has(kernel) && chosen(kernel)).collect())
        .filter(|group: &Vec<MeasuredKernel>| !group.is_empty())
        .collect();
    if groups.is_empty() {
        bail!("no kernel has such a name; `attn calibrate --cases` prints all of them");
    }
    Ok(groups)
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
        if traits.is_sm90_prefill() != kernel.is_sm90_prefill() || traits.facts().on_cuda_cores != kernel.cuda_cores() {
            bail!("this GPU has no such kernel");
        }
        (traits.facts().tile_rows, built.resident_ctas())
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
        merges.push((steps_of_merge(kernel.kind, states.into()), (merged - separate) * 1e6));
    }
    let device = engine.device().context("a device")?;
    let (fitted, merged) = (fit::work(&runs), fit::merge(&merges));
    let ctas_per_sm = resident / device.multiprocessors().max(1);
    let mut row = rows::row(kernel, rows, ctas_per_sm, &fitted, &merged);
    let us = |ns: f64| (ns / 10.0).round() / 100.0;
    row["us"] = runs.iter().map(|(_, ns)| us(*ns)).collect();
    row["merge_us"] = merges.iter().map(|(_, ns)| us(*ns)).collect();
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
