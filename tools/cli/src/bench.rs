//! `attn bench`: times the kernels of cases, and writes a record of each.

use std::{num::NonZeroUsize, path::PathBuf, process::ExitCode};

use anyhow::{Context as _, Result, bail};
use attn::Engine;
use attn_kernels::cost::CostTable;
use attn_testing::{BenchResult, Case, RunMode};
use serde_json::json;

use crate::cases::Cases;
use crate::global::Global;
use crate::output::{Output, check_distinct, figure, message, progress, with};
use crate::report::{Report, title};
use crate::{op_bench, prepare, sampling_serve, serve};

#[derive(clap::Args)]
pub(crate) struct Bench {
    #[command(flatten)]
    cases: Cases,
    #[command(flatten)]
    device: Device,
    /// Timed runs of each case; the median counts.
    #[arg(long, value_name = "N", default_value = "15")]
    reps: NonZeroUsize,
    /// Also writes one HTML page: a roofline of the device, bars of times with what bytes and FLOPs alone need, tables.
    #[arg(long, value_name = "FILE.html", conflicts_with_all = ["serve", "ops", "sampling"])]
    report: Option<PathBuf>,
    /// The commit that this program was built from, for the report.
    #[arg(long, value_name = "HASH", requires = "report", conflicts_with_all = ["serve", "ops", "sampling"])]
    commit: Option<String>,
    /// Times the ops around attention instead (merge, append, copy), with the bytes that they move.
    #[arg(long, conflicts_with_all = ["serve", "Cases"])]
    ops: bool,
    /// Serves times of sampling, for benches/baselines/sampling.py, over stdin and stdout.
    #[arg(long, conflicts_with_all = ["serve", "ops", "Cases", "reps"])]
    sampling: bool,
    /// Serves the interleaved benchmark, benches/baselines/interleave.py, over stdin and stdout: prepare, time, drop.
    #[arg(long, conflicts_with_all = ["Cases", "reps"])]
    serve: bool,
    /// Times this variant instead of each case's own, so that two variants can be compared on the same inputs. Needs
    /// --serve.
    #[arg(long, value_name = "EXPR", requires = "serve", conflicts_with_all = ["Cases", "ops", "sampling"])]
    variant: Option<String>,
}

/// The device option.
#[derive(clap::Args)]
pub(crate) struct Device {
    /// cpu, cuda, cuda:1, or auto: CUDA device 0, else the CPU.
    #[arg(long, default_value = "auto")]
    device: String,
}

impl Device {
    /// The engine on the device, with the costs that the command line names, else those of the environment. A file that
    /// cannot be read is an error of the command, and not of each of its cases.
    pub(crate) fn engine(&self, global: &Global) -> Result<Engine> {
        let costs = global.costs_of_option()?;
        let engine = self.without_costs()?;
        Ok(match costs {
            Some(costs) => engine.with_costs(&costs),
            None if engine.is_cpu() => engine,
            None => engine.with_costs(&CostTable::from_env()?),
        })
    }

    fn without_costs(&self) -> Result<Engine> {
        let ordinal = |text: &str| text.parse::<u32>().with_context(|| format!("--device cuda:{text}: not a number"));
        Ok(match self.device.as_str() {
            "auto" => Engine::auto()?,
            "cpu" => Engine::cpu(),
            "cuda" => Engine::cuda(0)?,
            other => match other.strip_prefix("cuda:") {
                Some(number) => Engine::cuda(ordinal(number)?)?,
                None => bail!("--device {other}: there are cpu, cuda, cuda:N, auto"),
            },
        })
    }
}

/// Times every case. A case that cannot be run has a record with the reason and is no failure.
pub(crate) fn run(args: &Bench, global: &Global) -> Result<ExitCode> {
    let reps = args.reps.get();
    if args.ops {
        return op_bench::run(&args.device.engine(global)?, reps, global);
    }
    if (args.sampling || args.serve) && (global.json || global.out.is_some()) {
        bail!("--serve and --sampling answer on stdout, line by line: --json and --out are for the other commands");
    }
    if args.sampling {
        return sampling_serve::run(&args.device.engine(global)?);
    }
    if args.serve {
        return serve::run(&args.device.engine(global)?, args.variant.as_deref());
    }
    let written = [("--report", &args.report), ("--out", &global.out)];
    let written = written.into_iter().filter_map(|(option, file)| Some((option, file.as_ref()?)));
    check_distinct(args.cases.read().chain(written))?;
    let cases = args.cases.load()?;
    let engine = args.device.engine(global)?;
    let columns = ["case", "kernel", "us", "GB/s", "TFLOP/s", "plan, us", "compile, ms", "regs", "spill, B", "smem, B"];
    let mut output = Output::new(global, &columns)?;
    let create = |path: &PathBuf| Report::create(path, &engine, args.commit.as_deref(), reps);
    let mut report = args.report.as_ref().map(create).transpose()?;
    let modes = |case: &Case| [&[RunMode::AsIs], &case.ours_also[..]].concat();
    let in_modes = |case| modes(case).into_iter().map(move |mode| (case, mode));
    prepare::compile(&cases.iter().flat_map(in_modes).collect::<Vec<_>>(), &engine, false);
    let bar = progress(cases.len());
    let mut ran = 0usize;
    for case in &cases {
        bar.set_message(case.title().to_owned());
        let mut any_ran = false;
        for mode in modes(case) {
            let outcome = attn_testing::bench_mode(case, mode, &engine, reps);
            let outcome = outcome.map_err(|error| crate::output::causes(&error.into()));
            any_ran |= outcome.is_ok();
            record(case, mode, &outcome, &mut output)?;
            if let Some(report) = &mut report {
                report.add(case, mode, &outcome);
            }
        }
        ran += usize::from(any_ran);
        bar.inc(1);
    }
    bar.finish_and_clear();
    output.finish()?;
    if let Some(report) = report {
        report.write()?;
    }
    message!("{} of {} cases timed on {}", ran, cases.len(), engine);
    Ok(ExitCode::SUCCESS)
}

/// Writes the record of a case in one run mode.
fn record(case: &Case, mode: RunMode, outcome: &Result<BenchResult, String>, output: &mut Output) -> Result<()> {
    let mut echo = serde_json::to_value(case)?;
    let title = title(case.title(), mode);
    if mode != RunMode::AsIs {
        echo = with(echo, json!({ "form": mode }));
    }
    match outcome {
        Ok(result) => output.record(&with(echo, serde_json::to_value(result)?), || {
            let count = |x: Option<u32>| x.map_or(String::new(), |x| x.to_string());
            vec![
                title,
                result.ran.clone(),
                figure(Some(result.ms * 1e3)),
                figure(Some(result.gbps)),
                figure(Some(result.tflops)),
                figure(Some(result.plan_us)),
                figure(result.compile_ms),
                count(result.regs),
                count(result.spill_bytes),
                count(result.smem),
            ]
        }),
        Err(why) => output.record(&with(echo, json!({ "cannot": why })), || vec![title, format!("cannot: {why}")]),
    }
}
