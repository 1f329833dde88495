//! A hook that is not written costs nothing, and a user's code costs what ours does: by the instructions in the cubins.
//!
//! No GPU is needed, NVRTC is: `cargo xtask test` fetches it.
#![allow(clippy::print_stderr)]

extern crate attn_core as attn;

use std::collections::BTreeMap;

use attn::lang::{AttentionVariant, LogitIndex};
use attn::{
    Registry, Variant, VariantParams, attention_variant,
    dtype::Dtypes,
    spec::{KernelKind, PrefillTemplate, ValueRows},
};
use attn_kernels::{
    cell::{Cell, CellRequest},
    compile::nvrtc::Nvrtc,
    jit,
    splice::{KernelSource, has_key_hooks, has_value_hooks},
};
use object::{Object as _, ObjectSection as _};

/// A variant that writes no hook. It has a parameter, or it would be no part of a composition at all.
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
    let mut registry = Registry::empty();
    registry.register_all(attn_variants::variants()).expect("names differ");
    registry.register_all(attn::variants![Idle, MyCausal, MyWindow]).expect("names differ");
    Variant::parse_with(expr, &registry).expect(expr)
}

/// The instructions of each kernel of a variant, by name.
fn code(expr: &str, kind: KernelKind, arch: &str) -> BTreeMap<String, Vec<u8>> {
    let variant = variant(expr);
    let (key_hooks, value_hooks) = (has_key_hooks(&variant), has_value_hooks(&variant));
    let (dtypes, arch) = (Dtypes::bf16(), arch.parse().expect(arch));
    let request = CellRequest {
        kind,
        head_dim: 128,
        values: ValueRows::Same,
        dtypes,
        paged: true,
        group: 4,
        key_hooks,
        value_hooks,
        arch,
        key_lists: false,
        template: PrefillTemplate::default(),
    };
    let source = KernelSource::build(&variant, &Cell::choose(&request).expect("a cell")).expect("supported");
    let ready = jit::obtain(source).unwrap_or_else(|error| panic!("{error}"));
    let file = object::File::parse(&*ready.compiled.cubin).expect("a cubin is an ELF file");
    let sections = file.sections().filter_map(|section| {
        let name = section.name().ok().filter(|name| name.starts_with(".text."))?.to_owned();
        Some((name, section.data().ok()?.to_vec()))
    });
    let code: BTreeMap<_, _> = sections.collect();
    let kernels = if kind == KernelKind::Prefill { 2 } else { 1 }; // a main kernel, and what merges after prefill
    assert!(code.len() >= kernels && code.values().all(|code| code.len() > 500), "{:?}", code.keys());
    code
}

/// Compares the instructions of two expressions, in both kernels, on two architectures.
fn same(a: &str, b: &str) -> Vec<(String, bool)> {
    let mut found = Vec::new();
    for kind in [KernelKind::Prefill, KernelKind::Decode] {
        for arch in ["sm_80", "sm_90a"] {
            let (a, b) = (code(a, kind, arch), code(b, kind, arch));
            assert!(a.keys().eq(b.keys()));
            found.extend(a.iter().zip(b.values()).map(|((name, a), b)| (format!("{kind} {arch} {name}"), a == b)));
        }
    }
    found
}

/// Whether there is a compiler; `cargo xtask test` always brings one.
fn compiler() -> bool {
    let found = Nvrtc::find();
    if let Err(error) = &found {
        eprintln!("SKIPPED: {error}");
    }
    found.is_ok()
}

fn assert_same(pairs: &[(&str, &str)]) {
    if compiler() {
        for (a, b) in pairs {
            for (place, same) in same(a, b) {
                assert!(same, "`{a}` and `{b}` differ in {place}");
            }
        }
    }
}

#[test]
fn a_variant_without_hooks_is_not_in_the_kernel() {
    assert_same(&[
        ("full", "noop_idle"),
        ("causal", "noop_idle + causal"),
        ("causal + soft_cap(cap=30)", "causal + soft_cap(cap=30) + noop_idle"),
    ]);
}

#[test]
fn a_variant_of_a_user_costs_what_the_stock_one_costs() {
    assert_same(&[("causal", "noop_my_causal"), ("causal + sink", "noop_my_causal + sink")]);
}

#[test]
fn another_value_is_the_same_kernel() {
    assert_same(&[
        ("soft_cap(cap=30)", "soft_cap(cap=50)"),
        ("noop_my_window(window=1)", "noop_my_window(window=4096)"),
    ]);
}

/// The comparison sees a hook: one that is written changes the kernels that it runs in.
#[test]
fn a_hook_that_is_written_is_in_the_kernel() {
    if compiler() {
        for (hook, after_merge) in [("causal", false), ("soft_cap(cap=30)", false), ("sink", true), ("head_gate", true)]
        {
            let differ: Vec<_> =
                same("full", hook).into_iter().filter(|(_, same)| !same).map(|(place, _)| place).collect();
            for kernel in ["prefill sm_80", "prefill sm_90a", "decode sm_80", "decode sm_90a"] {
                // decode merges by itself
                let differs_in = if after_merge && kernel.starts_with("prefill") { "merge" } else { "" };
                let of_kernel = |place: &&String| place.starts_with(kernel) && place.contains(differs_in);
                assert!(differ.iter().any(|place| of_kernel(&place)), "{hook} in {kernel}: only {differ:?}");
            }
        }
    }
}
