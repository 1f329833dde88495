//! Every stock variant compiles in every kernel, and spills no more than `spill_budget.txt` allows.
//!
//! The matrix has every variant in every kernel, for one architecture of each backend: prefill for sm_80 and sm_90a,
//! decode for sm_90a, kernels on CUDA cores for sm_75. The others have the same text, and the matrix has every hook for
//! them. A test run compiles a sample of it, and of the planner kernels; `cargo xtask test --all` compiles all, and
//! every variant for all architectures.
//!
//! No GPU is needed, NVRTC is: `cargo xtask test` fetches it. Cubins come from the cache where nothing has changed.

mod budget;
mod formats;
mod hashes;
mod ops;
mod points;

use std::collections::BTreeSet;

use attn_core::{Registry, Variant};
use attn_kernels::jit;
use attn_kernels::splice::{PlannerKind, PlannerSource, Unit};

use crate::stock::{cache, registry};
use budget::{budget, over_budget};
use points::{
    ARCHS, COMPOSITIONS, FURTHER_ARCHS, Point, SPREAD, cuda_cores, e4m3_compute, further, mixed, points, registered,
    sm90_mixed, sm90_prefill, widths,
};

/// The planner kernels whose labels are chosen: of each kind one for all variants whose mask gives no tile class, else
/// one for each variant.
fn planner_sources(registry: &Registry, archs: &[&str], chosen: impl Fn(&str) -> bool) -> Vec<(String, PlannerSource)> {
    let source = |(expr, arch, kind): (&String, &&str, PlannerKind)| {
        let label = format!("{kind} {arch}: {expr}");
        if !chosen(&label) {
            return None;
        }
        let variant = Variant::parse_with(expr, registry).expect(expr);
        Some((label, PlannerSource::build(&variant, kind, arch.parse().expect(arch)).expect("supported")))
    };
    let exprs = [registered(registry), COMPOSITIONS.map(str::to_owned).to_vec()].concat();
    let points = exprs.iter().flat_map(|expr| archs.iter().map(move |arch| (expr, arch)));
    points.flat_map(|(expr, arch)| PlannerKind::ALL.map(|kind| (expr, arch, kind))).filter_map(source).collect()
}

#[test]
fn mixed_kernels_compile_within_their_budget() {
    compile_points(|_| mixed());
}

#[test]
fn mixed_kernels_with_sm90_prefill_compile_within_their_budget() {
    compile_points(sm90_mixed);
}

#[test]
fn sm90_prefill_compiles_within_its_budget() {
    let count = compile_points(sm90_prefill);
    assert!(count > SPREAD.len() * 6, "every composition but the one with a key list");
}

#[test]
fn e4m3_compute_compiles_within_its_budget() {
    compile_points(|_| e4m3_compute());
}

#[test]
fn kernels_on_cuda_cores_compile_within_their_budget() {
    compile_points(cuda_cores);
}

#[test]
fn kernels_over_kv_formats_compile_within_their_budget() {
    let registry = registry();
    compile_sample(formats::kernels(&registry));
    compile_sample(formats::ops(&registry));
}

#[test]
fn every_stock_variant_compiles_within_its_budget() {
    compile_points(points);
}

#[test]
#[ignore = "minutes: `cargo xtask test --all`"]
fn every_stock_variant_compiles_for_further_architectures() {
    compile_points(further);
}

#[test]
fn a_sample_of_widths_compiles_within_its_budget() {
    compile_points(|_| widths());
}

#[test]
fn every_stock_variant_has_a_planner_kernel() {
    compile_planners(&ARCHS[1..]);
}

#[test]
#[ignore = "minutes: `cargo xtask test --all`"]
fn every_stock_variant_has_a_planner_kernel_for_further_architectures() {
    compile_planners(&[&ARCHS[..1], &FURTHER_ARCHS].concat());
}

fn compile_planners(archs: &[&str]) {
    let sources: Vec<_> = planner_sources(&registry(), archs, |_| true).into_iter().map(|(_, source)| source).collect();
    let texts: BTreeSet<&str> = sources.iter().map(Unit::text).collect();
    assert!(texts.len() < sources.len(), "variants without a mask share a planner kernel");
    compile_sample(sources);
}

/// The most kernels that a test compiles where it is a sample.
const SAMPLED_KERNELS: usize = 6;

/// Compiles a sample of points, or all where tests run as a whole. Returns how many points there are.
fn compile_points(of: impl FnOnce(&Registry) -> Vec<Point>) -> usize {
    let registry = registry();
    let points = of(&registry);
    let count = points.len();
    // a text takes long to make
    let sample = attn_needs::sample(points, SAMPLED_KERNELS);
    compile_each_once(sample.iter().map(|point| point.source(&registry)).collect());
    count
}

/// Compiles a sample of sources, or all where tests run as a whole.
fn compile_sample<S: Unit + Send>(sources: Vec<S>) {
    compile_each_once(attn_needs::sample(sources, SAMPLED_KERNELS));
}

/// Compiles each text once, and fails for a text that does not compile or spills too much.
fn compile_each_once<S: Unit + Send>(sources: Vec<S>) {
    let Some(cache) = cache() else { return };
    let budget = budget();
    let results = jit::obtain_all_from(&cache, sources, None, |_| {});
    let failures = results.iter().flat_map(|result| match result {
        Err(error) => vec![error.to_string()],
        Ok(ready) => over_budget(ready.source.name(), ready, &budget),
    });
    let failures: Vec<String> = failures.collect();
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}
