//! Kernels of the catalogue's cases compile as CUDA. No GPU is needed, NVRTC is: `cargo xtask test` fetches it.

use std::collections::BTreeSet;

use attn_core::Variant;
use attn_core::expr::Node;
use attn_core::lang::Hook;
use attn_kernels::compile::Compiler;
use attn_kernels::splice::{KernelSource, variant::outline};
use attn_testing::case_variant;
use attn_tests::catalogue::{self, kernels::kernel_traits};

/// Compiles what `tests/language/composition.rs` does not: a `kv_range`, branches per head, and
/// the mask that a `not` leaves.
#[test]
fn ranges_and_branches_compile() {
    let wanted = |variant: &Variant| {
        let node = |node: &Node| matches!(node, Node::PerHead(_) | Node::Not(_));
        variant.has(Hook::KvRange) || variant.nodes().iter().any(node)
    };
    assert!(compile(wanted) >= 10);
}

#[test]
#[ignore = "minutes: before a run on a GPU"]
fn every_case_compiles() {
    assert!(compile(|_| true) >= 150);
}

/// Compiles the kernels of the wanted variants and returns their number. Each variant text is compiled once for each
/// kernel kind, with the kernel traits of its last case.
fn compile(wanted: impl Fn(&Variant) -> bool) -> usize {
    catalogue::register();
    let compiler = Compiler::find().unwrap_or_else(|error| panic!("{error}"));
    let cases = catalogue::gpu_cases::all(&catalogue::entries());
    let mut seen = BTreeSet::new();
    // the long cases come last: they have more kernel traits
    for case in cases.iter().rev() {
        let variant = case_variant(case).expect("an entry").bind(&case.dims()).expect("it fits");
        if !wanted(&variant) {
            continue;
        }
        for (branch, traits) in kernel_traits(case, &variant) {
            if !seen.insert((outline(&branch), case.kernel.clone())) {
                continue;
            }
            let source =
                KernelSource::build(&branch, &traits).unwrap_or_else(|error| panic!("{}: {error}", case.title()));
            if let Err(error) = compiler.compile(&source.name, &source.text, traits.common.arch) {
                panic!("{}: {error}", case.title());
            }
        }
    }
    seen.len()
}
