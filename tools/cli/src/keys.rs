//! `attn keys`: the keys of the kernels that cases run, so that records of earlier runs are known to be of these
//! kernels or of others. With `--code` also the keys of what a GPU executes of them, which needs their cubins.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use attn::{DecodeBackend, Dtype, PrefillBackend, lang::KvFormats};
use attn_kernels::cache::CubinCache;
use attn_kernels::compile::{Arch, Compiled, Compiler};
use attn_kernels::{cost::CostTable, jit, splice::KernelSource};
use attn_testing::{Case, bit_exact_runs, case_variant, grid, wide_offset_cases};
use rayon::prelude::*;
use serde_json::{Value, json};

use crate::cases::load_files;
use crate::global::Global;
use crate::kernels::{parse_archs, traits_of};
use crate::output::{Output, check_distinct, message};

#[derive(clap::Args)]
pub(crate) struct Keys {
    /// Case files beside the built-in grids.
    #[arg(value_name = "CASES.jsonl")]
    files: Vec<PathBuf>,
    /// Architectures. `;` or `,` separates several.
    #[arg(long, default_value = "sm_90a", value_delimiter = ';')]
    arch: Vec<String>,
    /// The cases of the files alone.
    #[arg(long)]
    no_grids: bool,
    /// A KV format over which the serving grid runs too: int8, "int8 / int4(group=32)". May be given several times.
    #[arg(long, value_name = "FORMAT", conflicts_with = "no_grids")]
    kv_format: Vec<String>,
    /// Also prints each kernel's code key, of what a GPU executes, and compiles what is not in the cache for it.
    #[arg(long)]
    code: bool,
    /// Prints both keys of each entry of a cache folder instead: what `attn compile` of another commit left there.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["files", "arch", "no_grids", "kv_format", "code"])]
    cache: Option<PathBuf>,
    /// Only keys that begin with one of a file: the fields `key` and `keys` of JSON lines, as in benches/results.
    #[arg(long, value_name = "FILE")]
    of: Option<PathBuf>,
}

/// Prints every key once, in order. A case that no kernel supports has none. The exit code is 1 if a kernel does not
/// compile.
pub(crate) fn run(args: &Keys, global: &Global) -> Result<ExitCode> {
    let read = args.files.iter().map(|file| ("CASES.jsonl", file)).chain(args.of.iter().map(|file| ("--of", file)));
    check_distinct(read.chain(global.out.iter().map(|file| ("--out", file))))?;
    let of = args.of.as_deref().map(begins).transpose()?;
    let is_asked = |key: &str| of.as_ref().is_none_or(|of| of.iter().any(|begin| key.starts_with(begin)));
    let records: BTreeMap<String, Value> = match &args.cache {
        Some(dir) => {
            let cache = CubinCache::at(dir, u64::MAX);
            let mut keyed = cache.entries().map(|(key, compiled)| (key.to_string(), compiled)).peekable();
            if keyed.peek().is_none() {
                bail!("no compiled kernels in {}", dir.display());
            }
            keyed.filter(|(key, _)| is_asked(key)).map(|(key, compiled)| with_code(key, &compiled)).collect()
        }
        None => of_today(args, global, &is_asked)?.into_iter().collect(),
    };
    let mut output = Output::new(global, &["key", "code"])?;
    for record in records.values() {
        let row = || ["key", "code"].map(|field| record[field].as_str().unwrap_or_default().to_owned()).to_vec();
        output.record(record, row)?;
    }
    output.finish()?;
    let failed = records.values().any(|record| record["error"].is_string());
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The line of a kernel with its code key. The compiler is told, because another one's code may differ.
fn with_code(key: String, compiled: &Compiled) -> (String, Value) {
    let line = json!({ "key": key, "code": compiled.code_key(), "compiler": compiled.compiler });
    (key, line)
}

/// The keys in a file of JSON lines.
fn begins(path: &Path) -> Result<BTreeSet<String>> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut keys = BTreeSet::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let line: Value = serde_json::from_str(line).with_context(|| path.display().to_string())?;
        let many = line["keys"].as_array().into_iter().flatten();
        keys.extend(many.chain(line.get("key")).filter_map(Value::as_str).map(str::to_owned));
    }
    Ok(keys)
}

/// The lines of the kernels of the grids and cases that are asked for, by their keys.
fn of_today(args: &Keys, global: &Global, is_asked: &(impl Fn(&str) -> bool + Sync)) -> Result<Vec<(String, Value)>> {
    let mut cases = load_files(&args.files)?;
    if !args.no_grids {
        let grids = [grid::check(), grid::dims(), grid::small(), grid::serving(), grid::counting(), grid::formats()];
        cases.extend(grids.concat());
        cases.extend(grid::partial().into_iter().chain(grid::latent()));
        cases.extend(grid::bit_exact().iter().flat_map(bit_exact_runs));
        cases.extend(wide_offset_cases());
    }
    for format in &args.kv_format {
        KvFormats::parse(format)?;
        cases.extend(grid::serving().iter().filter_map(|case| case.over_format(format)));
    }
    let (archs, costs) = (parse_archs(&args.arch)?, global.costs()?);
    if cases.is_empty() {
        bail!("no cases: with --no-grids name a file of cases");
    }
    let compiler = if args.code { Some(Compiler::find()?) } else { None };
    let record = |source: KernelSource| {
        let key = Some(source.key().to_string()).filter(|key| is_asked(key))?;
        let Some(compiler) = &compiler else { return Some((key.clone(), json!({ "key": key }))) };
        // a cache of its own: one for all kernels would keep their cubins in memory
        match jit::obtain_from(&CubinCache::of_compiler(compiler), source) {
            Ok(ready) => Some(with_code(key, &ready.compiled)),
            Err(error) => {
                message!("attn: {error}");
                Some((key.clone(), json!({ "key": key, "error": error.to_string() })))
            }
        }
    };
    Ok(archs.into_iter().flat_map(|arch| of_cases(&cases, arch, &costs, &record)).collect())
}

/// The records of the kernels of all cases, on every backend that records are made on.
fn of_cases<R: Send>(
    cases: &[Case],
    arch: Arch,
    costs: &CostTable,
    record: &(impl Fn(KernelSource) -> Option<R> + Sync),
) -> Vec<R> {
    let on_cuda_cores =
        |case: Case| Case { prefill: PrefillBackend::CudaCores, decode: Some(DecodeBackend::CudaCores), ..case };
    let all = |case: &Case| {
        let in_f32 = Case { dtype: Dtype::F32.to_string(), ..case.clone() };
        let mma_sync = Case { prefill: PrefillBackend::Sm80, ..case.clone() };
        let resident = Case { prefill: PrefillBackend::Sm90Resident, ..case.clone() };
        let others = [mma_sync, resident, on_cuda_cores(case.clone()), on_cuda_cores(in_f32.clone()), in_f32];
        others.into_iter().chain(case.with_e4m3_compute()).chain([case.clone()])
    };
    // text depends on the structure of a variant and on KV formats with their scalars, so one case's tensors do for all
    let mut of_text: HashMap<_, Vec<&Case>> = HashMap::new();
    for case in cases {
        let format = case.dtypes().ok().and_then(|dtypes| dtypes.format);
        of_text.entry((&case.variant, format, case.head_dim_vo.shares_keys())).or_default().push(case);
    }
    let of_variant = |cases: Vec<&Case>| {
        let Ok(variant) = case_variant(cases[0]) else { return Vec::new() };
        let branches = variant.branches();
        let mut kernels = Vec::new();
        for case in cases.into_iter().flat_map(all) {
            for kernel in traits_of(&case, &variant, arch, costs).unwrap_or_default() {
                if !kernels.contains(&kernel) {
                    kernels.push(kernel);
                }
            }
        }
        let sources =
            kernels.par_iter().filter_map(|(branch, traits)| KernelSource::build(&branches[*branch], traits).ok());
        sources.filter_map(record).collect()
    };
    of_text.into_par_iter().flat_map_iter(|(_, cases)| of_variant(cases)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_has_the_keys_of_each_backend() {
        let case = |variant: &str| Case { kernel: "prefill".to_owned(), ..Case::new(variant) };
        let key = |source: KernelSource| Some(source.key().to_string());
        let on = |variant: &str| -> BTreeSet<String> {
            of_cases(&[case(variant)], Arch::for_device(9, 0), &CostTable::default(), &key).into_iter().collect()
        };
        // wgmma, wgmma in e4m3, mma.sync, CUDA cores in 16 bits and in f32; its head_dim has no resident kernel
        assert_eq!((on("causal").len(), on("full").len()), (5, 5));
        assert!(on("causal").is_disjoint(&on("full")));
        assert_eq!(on("soft_cap(cap=30)"), on("soft_cap(cap=50)"), "values are not in the text");
        assert!(on("causal").iter().all(|key| key.len() == 64));
    }
}
