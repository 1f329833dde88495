//! The SASS of kernels: a hook that no part writes adds no instruction, and a user's variant has the same instructions
//! as a stock one.
//!
//! Needs NVRTC (`cargo xtask test` fetches it) and no GPU.

use std::collections::BTreeMap;

use attn::lang::{AttentionVariant, LogitIndex};
use attn::{Variant, VariantParams, attention_variant, dtype::Dtypes, spec::KernelKind};
use attn_kernels::cache::CubinCache;
use attn_kernels::jit;
use attn_kernels::kernel_traits::{KernelTraits, KernelTraitsRequest};
use attn_kernels::splice::KernelSource;
use object::{Object as _, ObjectSection as _};

/// A variant without hooks. It has a parameter, because a part without any would be dropped from a composition.
#[derive(Clone, VariantParams)]
struct Idle {
    #[default(3)]
    #[require(number > 0)]
    number: i32,
}

#[attention_variant(name = "noop_idle")]
impl AttentionVariant for Idle {}

/// The causal mask as a user would write it.
#[derive(Clone, VariantParams)]
struct MyCausal;

#[attention_variant(name = "noop_my_causal")]
impl AttentionVariant for MyCausal {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        at.kv_pos <= at.qo_pos
    }
}

/// The sliding window as a user would write it.
#[derive(Clone, VariantParams)]
struct MyWindow {
    window: i32,
}

#[attention_variant(name = "noop_my_window")]
impl AttentionVariant for MyWindow {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        at.kv_pos > at.qo_pos - self.window
    }
}

fn variant(expr: &str) -> Variant {
    let mut registry = crate::stock::registry();
    registry.register_all(attn::variants![Idle, MyCausal, MyWindow]).expect("names differ");
    Variant::parse_with(expr, &registry).expect(expr)
}

/// The instructions of each kernel of a variant, by name.
fn code(cache: &CubinCache, expr: &str, kind: KernelKind, arch: &str) -> BTreeMap<String, Vec<u8>> {
    let variant = variant(expr);
    let request = KernelTraitsRequest::new(kind, 128, Dtypes::bf16(), arch.parse().expect(arch));
    let request = KernelTraitsRequest { group: 4, ..request.with_hooks([&variant]) };
    let source = KernelSource::build(&variant, &KernelTraits::choose(&request).expect("a traits")).expect("supported");
    let ready = jit::obtain_from(cache, source).unwrap_or_else(|error| panic!("{error}"));
    let file = object::File::parse(&*ready.compiled.cubin).expect("a cubin is an ELF file");
    let sections = file.sections().filter_map(|section| {
        let name = section.name().ok().filter(|name| name.starts_with(".text."))?.to_owned();
        Some((name, section.data().ok()?.to_vec()))
    });
    let code: BTreeMap<_, _> = sections.collect();
    // the main kernel, and the merge kernel after prefill
    let kernels = if kind == KernelKind::Prefill { 2 } else { 1 };
    assert!(code.len() >= kernels && code.values().all(|code| code.len() > 500), "{:?}", code.keys());
    code
}

/// Both kernels, each on one of two architectures: the first for an even `nth`, else the second. On both where tests
/// run as a whole.
fn kernels(nth: usize) -> Vec<(KernelKind, &'static str)> {
    let on = |archs: [&'static str; 2]| [KernelKind::Prefill, KernelKind::Decode].into_iter().zip(archs);
    let [first, second] = [on(["sm_80", "sm_90a"]), on(["sm_90a", "sm_80"])];
    if attn_needs::whole() {
        return first.chain(second).collect();
    }
    if (nth + attn_needs::seed()).is_multiple_of(2) { first.collect() } else { second.collect() }
}

/// Compares the instructions of two expressions in the nth [`kernels`].
fn same(cache: &CubinCache, a: &str, b: &str, nth: usize) -> Vec<(String, bool)> {
    let mut found = Vec::new();
    for (kind, arch) in kernels(nth) {
        let (a, b) = (code(cache, a, kind, arch), code(cache, b, kind, arch));
        assert!(a.keys().eq(b.keys()));
        found.extend(a.iter().zip(b.values()).map(|((name, a), b)| (format!("{kind} {arch} {name}"), a == b)));
    }
    found
}

fn assert_same(pairs: &[(&str, &str)]) {
    if let Some(cache) = crate::stock::cache() {
        for (nth, (a, b)) in pairs.iter().enumerate() {
            for (section, same) in same(&cache, a, b, nth) {
                assert!(same, "`{a}` and `{b}` differ in {section}");
            }
        }
    }
}

#[test]
fn a_variant_without_hooks_adds_no_instructions() {
    assert_same(&[
        ("full", "noop_idle"),
        ("causal", "noop_idle + causal"),
        ("causal + soft_cap(cap=30)", "causal + soft_cap(cap=30) + noop_idle"),
    ]);
}

#[test]
fn a_user_variant_has_the_instructions_of_the_stock_one() {
    assert_same(&[("causal", "noop_my_causal"), ("causal + sink", "noop_my_causal + sink")]);
}

#[test]
fn another_parameter_value_is_the_same_kernel() {
    assert_same(&[
        ("soft_cap(cap=30)", "soft_cap(cap=50)"),
        ("noop_my_window(window=1)", "noop_my_window(window=4096)"),
    ]);
}

/// The comparison detects hooks: a written hook changes the kernels that it runs in.
#[test]
fn a_written_hook_changes_the_kernel() {
    if let Some(cache) = crate::stock::cache() {
        let hooks = [("causal", false), ("soft_cap(cap=30)", false), ("sink", true), ("head_gate", true)];
        for (nth, (hook, after_merge)) in hooks.into_iter().enumerate() {
            let same = same(&cache, "full", hook, nth);
            let differ: Vec<_> = same.into_iter().filter(|(_, same)| !same).map(|(section, _)| section).collect();
            for (kind, arch) in kernels(nth) {
                let kernel = format!("{kind} {arch}");
                // decode merges in the main kernel
                let differs_in = if after_merge && kernel.starts_with("prefill") { "merge" } else { "" };
                let of_kernel = |section: &&String| section.starts_with(&kernel) && section.contains(differs_in);
                assert!(differ.iter().any(|section| of_kernel(&section)), "{hook} in {kernel}: only {differ:?}");
            }
        }
    }
}
