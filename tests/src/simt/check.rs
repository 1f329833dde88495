//! Runs cases on emulated kernels and compares them with the reference.

use std::collections::BTreeMap;

use attn_core::spec::{DecodeBackend, PrefillBackend};
use attn_kernels::kernel_traits::{DTYPES, head_dims_are_supported};
use attn_testing::{Case, Inputs};
use rayon::prelude::*;

use super::{
    compile::{HostCase, libraries},
    run::{self, run},
};
use crate::mutant::{Mutant, progress};

/// CTAs that the emulated device holds: few, so that each has several items, and KV splits that others merge.
const CTAS: u32 = 6;

/// The cases of one kernel family on tensor cores, with this prefill backend. Others are left out.
pub fn on_tensor_cores(
    kernel: &'static str,
    prefill: PrefillBackend,
    cases: impl IntoIterator<Item = Case>,
) -> impl Iterator<Item = Case> {
    let supported = |case: &Case| {
        let dtypes = case.dtypes().expect("known types");
        DTYPES.contains(&dtypes.qo) && head_dims_are_supported(case.head_dim, case.head_dim_vo.dim(case.heads()))
    };
    let cases = cases.into_iter().filter(move |case| case.kernel == kernel && supported(case));
    cases.map(move |case| Case { prefill, decode: Some(DecodeBackend::TensorCores), ..case })
}

/// The most multiplications and additions of a sampled case: tenths of a second.
const SAMPLED_COST: u64 = 20_000_000;

/// The most kernels of a check that is a sample: each takes seconds.
const SAMPLED_KERNELS: usize = 2;

/// The short cases of every n-th kernel of a family in a grid; `ATTN_TEST_SEED` (0) chooses the first.
#[must_use]
pub fn sample(grid: &[Case], kernel: &str, every: usize) -> Vec<Case> {
    let short: Vec<_> = grid.iter().filter(|of| of.kernel == kernel && of.check_cost() <= SAMPLED_COST).collect();
    let unit = |of: &Case| (of.variant.clone(), of.dtype.clone(), of.kv_dtype.clone(), of.head_dim, of.kv_layout);
    let units = short.chunk_by(|a, b| unit(a) == unit(b));
    units.skip(attn_needs::seed() % every).step_by(every).flatten().map(|&case| case.clone()).collect()
}

/// Runs cases, and fails for those that are outside of their tolerance. Cases with the same kernels share them. Where
/// tests do not run as a whole, cases of a few kernels run.
///
/// # Panics
/// A case fails, or there is none.
pub fn check(cases: impl IntoIterator<Item = Case>) {
    check_merges(CTAS, 0, cases);
}

/// Runs cases on an emulated device that holds `ctas` CTAs. Beyond what [`check`] asks, some row of each case must be
/// merged from `partials` partials or more.
///
/// # Panics
/// A case fails, or there is none.
pub fn check_merges(ctas: u32, partials: u32, cases: impl IntoIterator<Item = Case>) {
    let wrong = |cases: &[&HostCase]| wrong(&cases[0].texts(), cases, ctas, partials);
    let cases: Vec<_> = cases.into_iter().collect();
    let cases: Vec<_> = cases.into_par_iter().map(HostCase::new).collect();
    let mut groups: BTreeMap<&[String], Vec<&HostCase>> = BTreeMap::new();
    for case in &cases {
        groups.entry(&case.keys).or_default().push(case);
    }
    let groups: Vec<_> = groups.into_values().collect();
    if let Some(mutant) = Mutant::current() {
        // others pass without it, and one failure is enough
        let changed = |cases: &Vec<&HostCase>| cases[0].texts().iter().any(|text| mutant.changes(text));
        let failed = groups.into_par_iter().filter(changed).find_map_any(|cases| wrong(&cases).pop());
        assert!(failed.is_none(), "{}", failed.unwrap_or_default());
        return;
    }
    let groups = attn_needs::sample(groups, SAMPLED_KERNELS);
    let count = groups.iter().map(Vec::len).sum::<usize>();
    let wrong: Vec<_> = groups.into_par_iter().flat_map_iter(|cases| wrong(&cases)).collect();
    assert!(count > 0 && wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
}

/// The bits of the outputs, as f32, and of the log-sum-exps of each case.
///
/// # Panics
/// A case cannot be run.
#[must_use]
pub fn bits(cases: impl IntoIterator<Item = Case>) -> Vec<(Vec<u32>, Vec<u32>)> {
    let cases: Vec<_> = cases.into_iter().map(HostCase::new).collect();
    let mut groups: BTreeMap<&[String], Vec<usize>> = BTreeMap::new();
    for (at, case) in cases.iter().enumerate() {
        groups.entry(&case.keys).or_default().push(at);
    }
    let mut all = vec![(Vec::new(), Vec::new()); cases.len()];
    for of in groups.into_values() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let libraries = libraries(&cases[of[0]].texts(), folder.path());
        for at in of {
            let HostCase { case, variant, .. } = &cases[at];
            all[at] = run::bits(case, variant, &cases[at].kernels(&libraries), CTAS, case.seed as u32);
        }
    }
    all
}

/// The outputs, as f32, and the log-sum-exps of a case over inputs that `edit` changes.
///
/// # Panics
/// The case cannot be run.
#[must_use]
pub fn outputs(case: Case, edit: impl FnOnce(&mut Inputs)) -> (Vec<f32>, Vec<f32>) {
    let of = HostCase::new(case);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let kernels = of.kernels(&libraries(&of.texts(), folder.path()));
    let mut inputs = Inputs::new(&of.case, false).expect("a valid case");
    edit(&mut inputs);
    let ran = run::ran_over(inputs, &of.case, &of.variant, &kernels, CTAS, of.case.seed as u32);
    (ran.o, ran.lse)
}

/// The inputs of a case, and the bytes of its preprocessed values.
///
/// # Panics
/// The case cannot be run.
#[must_use]
pub fn preprocessed_values(case: Case) -> (Inputs, Vec<u8>) {
    let of = HostCase::new(case);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let kernels = of.kernels(&libraries(&of.texts(), folder.path()));
    let ran = run::ran(&of.case, &of.variant, &kernels, CTAS, of.case.seed as u32);
    (ran.inputs, bytemuck::cast_slice(&ran.values).to_vec())
}

/// What is wrong with the results of cases that have these kernels, each of which should have a row of `partials`
/// partials or more.
fn wrong(texts: &[String], cases: &[&HostCase], ctas: u32, partials: u32) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let libraries = libraries(texts, folder.path());
    let wrong = cases.iter().filter_map(|of| {
        let case = &of.case;
        progress();
        let (judged, most) = run(case, &of.variant, &of.kernels(&libraries), ctas, case.seed as u32);
        let passes = judged.passes() && most >= partials;
        (!passes).then(|| format!("{} {} {}: {judged:?}, {most} partials", case.kernel, case.title(), case.dtype))
    });
    let wrong = wrong.collect();
    progress();
    wrong
}
