//! 64-bit integers of the language in every kernel family, against the reference, which runs the same Rust. On the CPU,
//! and on a GPU if there is one. The kernels compile without a GPU.

use attn::Engine;
use attn_kernels::{compile::Compiler, splice::KernelSource};
use attn_needs::{Need, needed};
use attn_testing::{Case, LayoutKind, Lens, case_variant, check};
use attn_tests::{catalogue::kernels::kernel_traits, gpu::engines, language_stress};

/// Variants in every kernel family. A part of the keys is masked, or none is; products are large, negative and zero.
/// The last ones have long hooks.
fn cases() -> Vec<Case> {
    const VARIANTS: [&str; 5] = [
        "wide64(n=400000000)",
        "wide64(n=-3)",
        "wide64(n=0)",
        "signed64(n=400000000, u=7, x=9e11)",
        "signed64(n=-3, u=4000000000, x=-2.5)",
    ];
    let families = [("prefill", "sm80"), ("prefill", "sm90"), ("mixed", "sm80"), ("mixed", "sm90"), ("decode", "sm80")];
    let all = VARIANTS.into_iter().flat_map(|variant| families.map(|family| (variant, family)));
    let lens = |lens: &[u32]| Lens::List(lens.to_vec());
    let case = |variant, (kernel, prefill): (&str, &str), kv_layout| {
        let (kernel, prefill) = (kernel.to_owned(), prefill.parse().expect("a backend"));
        let (qo_lens, kv_lens) = (lens(&[1, 2, 1]), lens(&[700, 65, 129]));
        Case { kernel, prefill, kv_layout, qo_lens, kv_lens, ..Case::new(variant) }
    };
    all.flat_map(|(variant, family)| {
        [LayoutKind::Ragged, LayoutKind::Paged].map(|layout| case(variant, family, layout))
    })
    .collect()
}

#[test]
fn every_kernel_family_computes_in_i64() {
    attn::registry::register(language_stress::variants()).expect("no two share a name");
    let check_all = |engine: &Engine| {
        for case in cases() {
            let result = check(&case, engine).expect("it runs");
            assert!(result.passed, "{} {}: {}", case.kernel, case.variant, result.why());
        }
    };
    engines().for_each(|engine| check_all(&engine));
}

#[test]
fn kernels_with_i64_compile() {
    attn::registry::register(language_stress::variants()).expect("no two share a name");
    let Some(compiler) = needed(Need::Nvrtc, Compiler::find()) else { return };
    let compiled = |case: &Case| case.kv_layout == LayoutKind::Ragged && !case.variant.contains("n=-3");
    for case in attn_needs::sample(cases().into_iter().filter(compiled).collect(), 6) {
        let variant = case_variant(&case).expect("registered").bind(&case.dims()).expect("it fits");
        for (branch, traits) in kernel_traits(&case, &variant) {
            let source = KernelSource::build(&branch, &traits).expect("supported");
            compiler.compile(&source.name, &source.text, traits.common.arch).unwrap_or_else(|error| panic!("{error}"));
        }
    }
}
