//! `attn keys`: the keys of the kernels that cases run, so that records of earlier runs are known to be of these
//! kernels or of others. Nothing is compiled.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use attn::{DecodeBackend, Dtype, PrefillBackend, lang::KvFormats};
use attn_kernels::{compile::Arch, cost::CostTable, splice::KernelSource};
use attn_testing::{Case, bit_exact_runs, case_variant, grid, wide_offset_cases};
use rayon::prelude::*;
use serde_json::json;

use crate::cases::load_files;
use crate::global::Global;
use crate::kernels::{parse_archs, traits_of};
use crate::output::{Output, check_distinct};

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
}

/// Prints every key once, in order. A case that no kernel supports has none.
pub(crate) fn run(args: &Keys, global: &Global) -> Result<ExitCode> {
    let read = args.files.iter().map(|file| ("CASES.jsonl", file));
    check_distinct(read.chain(global.out.iter().map(|file| ("--out", file))))?;
    let mut cases = load_files(&args.files)?;
    if !args.no_grids {
        let grids = [grid::check(), grid::dims(), grid::small(), grid::serving(), grid::counting(), grid::formats()];
        cases.extend(grids.concat());
        cases.extend(grid::partial());
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
    let keys: BTreeSet<String> = archs.into_iter().flat_map(|arch| of_cases(&cases, arch, &costs)).collect();
    let mut output = Output::new(global, &["key"])?;
    for key in keys {
        output.record(&json!({ "key": key }), || vec![key.clone()])?;
    }
    output.finish()?;
    Ok(ExitCode::SUCCESS)
}

/// The keys of all cases, on every backend that records are made on.
fn of_cases(cases: &[Case], arch: Arch, costs: &CostTable) -> BTreeSet<String> {
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
        let Ok(variant) = case_variant(cases[0]) else { return BTreeSet::new() };
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
            kernels.iter().filter_map(|(branch, traits)| KernelSource::build(&branches[*branch], traits).ok());
        sources.map(|source| source.key().to_string()).collect()
    };
    of_text.into_par_iter().flat_map_iter(|(_, cases)| of_variant(cases)).collect()
}

#[cfg(test)]
mod tests {
    use attn_testing::Case;

    use super::{Arch, CostTable, of_cases};

    #[test]
    fn a_case_has_the_keys_of_each_backend() {
        let case = |variant: &str| Case { kernel: "prefill".to_owned(), ..Case::new(variant) };
        let on = |variant: &str| of_cases(&[case(variant)], Arch::for_device(9, 0), &CostTable::default());
        // wgmma, wgmma in e4m3, mma.sync, CUDA cores in 16 bits and in f32; its head_dim has no resident kernel
        assert_eq!((on("causal").len(), on("full").len()), (5, 5));
        assert!(on("causal").is_disjoint(&on("full")));
        assert_eq!(on("soft_cap(cap=30)"), on("soft_cap(cap=50)"), "values are not in the text");
        assert!(on("causal").iter().all(|key| key.len() == 64));
    }
}
