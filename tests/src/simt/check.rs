//! Runs cases on emulated kernels and compares them with the reference.

use attn::spec::{DecodeBackend, PrefillBackend};
use attn_testing::Case;
use rayon::prelude::*;

use super::HostKernels;

/// Cases on these backends.
pub fn on(
    prefill: PrefillBackend,
    decode: DecodeBackend,
    cases: impl IntoIterator<Item = Case>,
) -> impl Iterator<Item = Case> {
    cases.into_iter().map(move |case| Case { prefill, decode: Some(decode), ..case })
}

/// Runs cases and fails for those that are outside of their tolerance.
///
/// # Panics
/// A case fails, or there is none.
pub fn check(cases: impl IntoIterator<Item = Case>) {
    let cases: Vec<_> = cases.into_iter().collect();
    let wrong: Vec<_> = cases.par_iter().filter_map(wrong).collect();
    assert!(!cases.is_empty() && wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

/// What is wrong with the result of a case, if anything.
fn wrong(case: &Case) -> Option<String> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    // few CTAs have several items each, and KV splits that others merge
    let judged = HostKernels::compile(case, folder.path()).run(case, 6, case.seed as u32);
    (!judged.passes()).then(|| format!("{} {} {}: {judged:?}", case.kernel, case.title(), case.dtype))
}
