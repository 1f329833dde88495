//! Prefill on `mma.sync` runs on the host, thread by thread, and agrees with the f64 reference.

use attn_core::spec::{DecodeBackend, PrefillBackend};
use attn_testing::{Case, grid};
use attn_tests::simt::{check, on};

#[test]
fn the_small_grid() {
    let cases: Vec<Case> = grid::small().into_iter().filter(|case| case.kernel == "prefill").collect();
    check(on(PrefillBackend::Sm80, DecodeBackend::TensorCores, cases));
}
