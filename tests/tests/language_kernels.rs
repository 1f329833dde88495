//! 64-bit integers of the language in every kernel family, against the reference, which runs the same Rust. On the CPU,
//! and on a GPU if there is one.
#![allow(clippy::print_stderr)]

use attn_testing::{Case, LayoutKind, Lens, check};
use facade::Engine;

/// A part of the keys is masked, or none is; sums are large, negative and zero.
const VARIANTS: [&str; 3] =
    ["signed64(n=400000000, u=7, x=9e11)", "signed64(n=-3, u=4000000000, x=-2.5)", "signed64(n=0, u=0, x=0)"];

#[test]
fn signed_64_is_the_same_in_every_kernel() {
    facade::registry::register(attn_tests::language_stress::variants()).expect("no two share a name");
    check_all(&Engine::cpu());
    match Engine::cuda(0) {
        Ok(engine) => check_all(&engine),
        Err(error) => eprintln!("SKIPPED: {error}"),
    }
}

fn check_all(engine: &Engine) {
    let lens = |lens: &[u32]| Lens::List(lens.to_vec());
    for variant in VARIANTS {
        for (kernel, prefill) in [("prefill", "sm80"), ("prefill", "sm90"), ("decode", "sm80"), ("mixed", "sm80")] {
            for kv_layout in [LayoutKind::Ragged, LayoutKind::Paged] {
                let (kernel, prefill) = (kernel.to_owned(), prefill.parse().expect("a backend"));
                let (qo_lens, kv_lens) = (lens(&[1, 2, 1]), lens(&[700, 65, 129]));
                let case = Case { kernel, prefill, kv_layout, qo_lens, kv_lens, ..Case::new(variant) };
                let result = check(&case, engine).expect("it runs");
                assert!(result.passed, "{} {variant}: {}", case.kernel, result.why());
            }
        }
    }
}
