//! `attn bench`.

use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use attn::{
    Engine,
    testing::{self, Case, Form},
};
use serde_json::json;

use crate::{
    Global,
    cases::Cases,
    op_bench,
    output::{Output, figure, progress, with},
    serve,
};

#[derive(clap::Args)]
pub(crate) struct Bench {
    #[command(flatten)]
    cases: Cases,
    #[command(flatten)]
    device: Device,
    /// Timed runs of each case; the median counts.
    #[arg(long, default_value_t = 15)]
    reps: usize,
    /// Times the ops around attention instead (merges, appends, copies ..), against the bytes that they move.
    #[arg(long, conflicts_with = "serve")]
    ops: bool,
    /// Speaks the line protocol of race.py on stdin and stdout: prepare, time, drop.
    #[arg(long)]
    serve: bool,
    /// With --serve: times this instead of the variant of every case, so that two variants take turns on the same inputs.
    #[arg(long, value_name = "EXPR", requires = "serve")]
    variant: Option<String>,
}

/// Where to run.
#[derive(clap::Args)]
pub(crate) struct Device {
    /// cpu, cuda, cuda:1, or auto: CUDA device 0, else the CPU.
    #[arg(long, default_value = "auto")]
    device: String,
}

impl Device {
    /// The engine on it.
    pub(crate) fn engine(&self) -> Result<Engine> {
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

/// Times every case. A case that cannot be run says why and is no failure.
pub(crate) fn run(args: &Bench, global: &Global) -> Result<ExitCode> {
    if args.ops {
        return op_bench::run(&args.device.engine()?, args.reps, global);
    }
    if args.serve {
        if args.cases.named() {
            bail!("--serve takes its cases from stdin");
        }
        return serve::run(&args.device.engine()?, args.variant.as_deref());
    }
    let cases = args.cases.load()?;
    let engine = args.device.engine()?;
    let columns = ["case", "kernel", "us", "GB/s", "TFLOP/s", "plan, us", "compile, ms", "regs", "spill, B", "smem, B"];
    let mut output = Output::new(global, &columns)?;
    let bar = progress(cases.len());
    let mut ran = 0usize;
    for case in &cases {
        bar.set_message(case.title().to_owned());
        let mut some = false;
        for form in std::iter::once(Form::AsIs).chain(case.ours_also.iter().copied()) {
            some |= record(case, form, &engine, args.reps, &mut output)?;
        }
        ran += usize::from(some);
        bar.inc(1);
    }
    bar.finish_and_clear();
    output.finish()?;
    eprintln!("{} of {} cases timed on {}", ran, cases.len(), engine);
    Ok(ExitCode::SUCCESS)
}

/// Times a form of a case, and writes what comes of it. Says whether it ran.
fn record(case: &Case, form: Form, engine: &Engine, reps: usize, output: &mut Output) -> Result<bool> {
    let mut echo = serde_json::to_value(case)?;
    let mut title = case.title().to_owned();
    if form != Form::AsIs {
        echo = with(echo, json!({ "form": form }));
        title = format!("{title}: {form}");
    }
    match testing::bench_form(case, form, engine, reps) {
        Ok(result) => {
            output.record(&with(echo, serde_json::to_value(&result)?), || {
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
            })?;
            Ok(true)
        }
        Err(error) => {
            let why = crate::causes(&error.into());
            output.record(&with(echo, json!({ "cannot": why })), || vec![title, format!("cannot: {why}")])?;
            Ok(false)
        }
    }
}
