//! The text of long hooks, and the time that their kernels take to compile.

use attn_core::{Registry, Variant, spec::KernelKind};
use attn_kernels::splice::{KernelSource, variant::parts_source};
use attn_tests::compile_time::{CompileTime, traits};
use attn_tests::long_hooks;

fn variants() -> Vec<Variant> {
    let mut registry = Registry::empty();
    registry.register_all(long_hooks::variants()).expect("no two share a name");
    let parse = |name| Variant::parse_with(name, &registry).expect("defaults");
    long_hooks::variants().iter().map(|desc| parse(desc.name)).collect()
}

fn compile(kernels: &[(KernelKind, &str)]) {
    let Some(times) = CompileTime::new() else { return };
    let all = variants();
    let all = kernels.iter().flat_map(|(kind, arch)| all.iter().map(|variant| (variant, traits(*kind, arch, variant))));
    let slow: Vec<String> = all.filter_map(|(variant, traits)| times.too_long(variant, &traits)).collect();
    assert!(slow.is_empty(), "{}", slow.join("\n"));
}

#[test]
fn prefill_on_wgmma_compiles_within_seconds() {
    compile(&[(KernelKind::Prefill, "sm_90a")]);
}

#[test]
#[ignore = "minutes: `cargo xtask test --all`"]
fn other_kernels_compile_within_seconds() {
    compile(&[(KernelKind::Prefill, "sm_80"), (KernelKind::Decode, "sm_90a"), (KernelKind::Mixed, "sm_80")]);
}

/// Prefill has a rolled loop over logits; decode has few logits a thread.
#[test]
fn long_hooks_have_rolled_loops() {
    for variant in variants() {
        let text = |kind, arch| KernelSource::build(&variant, &traits(kind, arch, &variant)).expect("supported").text;
        let is_rolled = |text: String| text.contains("cuda/softmax/rolled_scores.cuh");
        for (kind, arch) in
            [(KernelKind::Prefill, "sm_90a"), (KernelKind::Prefill, "sm_80"), (KernelKind::Mixed, "sm_80")]
        {
            assert!(is_rolled(text(kind, arch)), "{variant}: {arch}");
        }
        assert!(!is_rolled(text(KernelKind::Decode, "sm_90a")), "{variant}");
    }
}

/// The longest hooks are functions that are called, and shorter ones are inlined.
#[test]
fn the_longest_hooks_are_called() {
    let text = |name: &str| {
        let desc = long_hooks::variants().iter().find(|desc| desc.name == name).expect(name);
        parts_source(&[desc]).expect("one part")
    };
    assert!(text("long_helpers").contains("ATTN_CALL float logits_transform("));
    assert!(text("long_fire").contains("ATTN_FN float logits_transform("));
    assert!(text("long_weight").contains("ATTN_CALL float weight("));
    let every = text("long_every");
    assert!(every.contains("CalledRow<R> called{q}") && every.contains("ATTN_CALL TileClass tile_class("));
    // a loop with a short body is left to the compiler
    assert!(every.contains("#pragma unroll 1\n") && !text("long_fire").contains("#pragma unroll 1\n"));
}
