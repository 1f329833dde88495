//! `attn compile`: compiles the kernels of expressions or cases, and prints registers, spills and times.

use std::{collections::BTreeMap, path::PathBuf, process::ExitCode};

use anyhow::{Context as _, Result, bail};
use attn_core::{expr::Variant, registry::Registry, spec::KernelKind};
use attn_kernels::cache::{CubinCache, Origin};
use attn_kernels::compile::{Compiled, Compiler};
use attn_kernels::cost::CostTable;
use attn_kernels::jit;
use attn_kernels::kernel_traits::KernelTraits;
use attn_kernels::splice::KernelSource;
use attn_testing::example_expression;
use serde_json::{Value, json};

use crate::cases;
use crate::global::Global;
use crate::kernels::{self, KernelArgs};
use crate::output::{Output, check_distinct, figure, message, progress};
use crate::rust_text::RustText;

#[derive(clap::Args)]
#[command(mut_args(of_exprs))]
pub(crate) struct Compile {
    /// Variant expressions, or source files with one variant each; `all` is every registered variant.
    #[arg(value_name = "EXPR")]
    exprs: Vec<String>,
    /// Only this kernel: prefill, decode or mixed. The default is prefill and decode.
    #[arg(long)]
    kernel: Option<KernelKind>,
    #[command(flatten)]
    rust: RustText,
    #[command(flatten)]
    kernel_args: KernelArgs,
    /// Compiles every kernel that the cases of a file may need. Unsupported cases are left out.
    #[arg(long, value_name = "CASES.jsonl")]
    cases: Vec<PathBuf>,
    /// Compiles each kernel N times, one at a time and without the cache, and prints the median of each.
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "5")]
    cold: Option<usize>,
}

/// Options of kernels are for expressions: a case has its own, but for the architecture.
fn of_exprs(arg: clap::Arg) -> clap::Arg {
    const OPTIONS: [&str; 13] = [
        "kernel",
        "head_dim",
        "head_dim_vo",
        "dtype",
        "kv_dtype",
        "kv_format",
        "layout",
        "group",
        "stored",
        "shared_rows",
        "prefill",
        "decode",
        "compute_type",
    ];
    if OPTIONS.contains(&arg.get_id().as_str()) { arg.requires("exprs") } else { arg }
}

/// Compiles the kernels, or times their compilation.
pub(crate) fn run(args: &Compile, global: &Global) -> Result<ExitCode> {
    check_distinct(
        args.cases.iter().map(|file| ("--cases", file)).chain(global.out.iter().map(|file| ("--out", file))),
    )?;
    let kinds = args.kernel.map_or(vec![KernelKind::Prefill, KernelKind::Decode], |kind| vec![kind]);
    args.kernel_args.check_used(&kinds)?;
    let sources = sources(args, &kinds, &global.costs()?)?;
    match args.cold {
        Some(0) => bail!("--cold 0 compiles nothing"),
        Some(times) => cold(&sources, times, global),
        None => warm(sources, global),
    }
}

/// Kernels with the expressions that they come from, in the order of the command line.
type Sources = Vec<(String, KernelSource)>;

fn sources(args: &Compile, kinds: &[KernelKind], costs: &CostTable) -> Result<Sources> {
    args.rust.register()?; // cases and `all` name its variants too
    let mut sources = Sources::new();
    let mut exprs = Vec::new();
    for expr in &args.exprs {
        match expr.as_str() {
            "all" => {
                let registry = Registry::global()?;
                for desc in registry.iter() {
                    exprs.push(example_expression(desc, &registry)?);
                }
            }
            expr => exprs.push(args.rust.expression(expr)?),
        }
    }
    for expr in &exprs {
        // synthetic parameters: they are kernel arguments and no part of the text
        let variant: Variant = attn_testing::filled_variant(expr)?;
        for &kind in kinds {
            sources.extend(args.kernel_args.sources(&variant, kind, costs)?.into_iter().map(|s| (expr.clone(), s)));
        }
    }
    let archs = args.kernel_args.archs()?;
    let mut left_out = BTreeMap::new();
    for case in cases::load_files(&args.cases)? {
        for &arch in &archs {
            match kernels::of_case(&case, arch, costs) {
                Ok(branches) => sources.extend(branches.into_iter().map(|source| (case.variant.clone(), source))),
                Err(error) => *left_out.entry(crate::output::causes(&error)).or_insert(0usize) += 1,
            }
        }
    }
    for (why, cases) in left_out {
        message!("{cases} cases left out: {why}");
    }
    let mut keys = std::collections::HashSet::new();
    sources.retain(|(_, source)| keys.insert(source.key().to_string()));
    if sources.is_empty() {
        bail!("nothing to compile: name an expression, `all`, or --cases FILE")
    } else {
        Ok(sources)
    }
}

const COLUMNS: [&str; 9] = ["kernel", "arch", "entry", "regs", "spill, B", "smem, B", "cubin, B", "ms", "from"];

fn warm(sources: Sources, global: &Global) -> Result<ExitCode> {
    let bar = progress(sources.len());
    let (exprs, sources): (Vec<String>, Vec<KernelSource>) = sources.into_iter().unzip();
    let of_source = |source: &KernelSource| (source.traits, source.key().to_string());
    let kernels: Vec<(KernelTraits, String)> = sources.iter().map(of_source).collect();
    let mut output = Output::new(global, &COLUMNS)?;
    let (count, mut failed, mut written) = (sources.len(), 0usize, Ok(()));
    // a cubin of another compiler in the cache is compiled again
    let own = Compiler::find().ok().map(|compiler| CubinCache::of_compiler(&compiler));
    jit::obtain_all_from(own.as_ref().unwrap_or(CubinCache::global()), sources, None, |done| {
        bar.inc(1);
        bar.set_message(done.name.to_owned());
        let (expr, (traits, key)) = (&exprs[done.index], &kernels[done.index]);
        let line = match done.result {
            Ok((compiled, origin)) => {
                let record = record(expr, traits, key, compiled, origin);
                output.record(&record, || row(&record, &traits.common.arch.to_string()))
            }
            Err(error) => {
                failed += 1;
                bar.suspend(|| message!("attn: {error}"));
                let cell = traits.describe();
                let record = json!({ "variant": expr, "cell": cell, "error": error.to_string() });
                output.record(&record, || vec![format!("{expr}: {cell}"), String::new(), "failed".to_owned()])
            }
        };
        if written.is_ok() {
            written = line;
        }
    });
    bar.finish_and_clear();
    written?;
    output.finish()?;
    if let Err(error) = CubinCache::global().check_writable() {
        message!("attn: compiled kernels cannot be kept ({error}); set ATTN_CACHE_DIR to a folder that can be written");
    }
    if failed > 0 {
        message!("{failed} of {count} kernels do not compile");
    }
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn record(expr: &str, traits: &KernelTraits, key: &str, compiled: &Compiled, origin: Origin) -> Value {
    let entries: Vec<Value> = compiled
        .resources()
        .into_iter()
        .map(|r| {
            let (regs, spill_bytes) = (r.registers, r.spill_bytes());
            json!({ "entry": r.kernel, "regs": regs, "spill_bytes": spill_bytes, "stack": r.stack, "smem": r.smem })
        })
        .collect();
    json!({
        "variant": expr,
        "kernel": traits.kind().to_string(),
        "cell": traits.describe(),
        "arch": traits.common.arch.to_string(),
        "key": key,
        "code": compiled.code_key(),
        "bytes": compiled.cubin.len(),
        "smem": traits.smem_bytes(),
        "ms": compiled.ms,
        "from": origin.to_string(),
        "compiler": compiled.compiler,
        "entries": entries,
    })
}

fn row(record: &Value, arch: &str) -> Vec<String> {
    let text = |v: &Value| v.as_str().map_or_else(|| v.to_string(), str::to_owned);
    let entries: &[Value] = record["entries"].as_array().map_or(&[], Vec::as_slice);
    let column = |key: &str| entries.iter().map(|e| text(&e[key])).collect::<Vec<_>>().join("\n");
    vec![
        format!("{}: {}", text(&record["variant"]), text(&record["cell"])),
        arch.to_owned(),
        column("entry"),
        column("regs"),
        column("spill_bytes"),
        text(&record["smem"]),
        text(&record["bytes"]),
        figure(record["ms"].as_f64()),
        text(&record["from"]),
    ]
}

/// Compiles one kernel at a time without any cache.
fn cold(sources: &Sources, times: usize, global: &Global) -> Result<ExitCode> {
    let compiler = Compiler::find()?;
    let bar = progress(sources.len() * times);
    let mut output = Output::new(global, &["kernel", "median, ms", "least", "most", "cubin, B"])?;
    let mut sums: BTreeMap<(String, String), f64> = BTreeMap::new();
    // rounds over all kernels, so that a slow phase of the machine affects all of them alike
    let mut runs = vec![(Vec::with_capacity(times), 0); sources.len()];
    for _ in 0..times {
        for ((_, source), (ms, bytes)) in sources.iter().zip(&mut runs) {
            let compiled = compiler.compile(&source.name, &source.text, source.traits.common.arch)?;
            *bytes = compiled.cubin.len();
            ms.push(compiled.ms);
            bar.inc(1);
        }
    }
    for ((expr, source), (mut ms, bytes)) in sources.iter().zip(runs) {
        ms.sort_by(f64::total_cmp);
        let (median, least, most) = (ms[ms.len() / 2], ms[0], ms[ms.len() - 1]);
        *sums.entry((expr.clone(), source.traits.common.arch.to_string())).or_default() += median;
        let record = json!({
            "variant": expr, "kernel": source.traits.kind().to_string(), "cell": source.traits.describe(),
            "runs": times, "cold_ms": median, "cold_ms_least": least, "cold_ms_most": most, "bytes": bytes,
            "compiler": compiler.name(),
        });
        output.record(&record, || {
            let name = format!("{expr}: {}", source.traits.describe());
            vec![name, figure(Some(median)), figure(Some(least)), figure(Some(most)), bytes.to_string()]
        })?;
    }
    bar.finish_and_clear();
    for ((expr, arch), sum) in &sums {
        let record = json!({ "variant": expr, "arch": arch, "kernel": "all", "runs": times, "cold_ms": sum });
        output.record(&record, || vec![format!("{expr}: all kernels {arch}"), figure(Some(*sum))])?;
    }
    output.finish()?;
    let mut all: Vec<f64> = sums.into_values().collect();
    all.sort_by(f64::total_cmp);
    let median = all.get(all.len() / 2).context("nothing was compiled")?;
    message!("median over {} expressions, all their kernels one after the other: {:.0} ms", all.len(), median);
    Ok(ExitCode::SUCCESS)
}
