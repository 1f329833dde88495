//! Prefill on `mma.sync` runs on the host, thread by thread, and agrees with the f64 reference.

use attn_core::spec::PrefillBackend;
use attn_testing::{Case, grid};
use attn_tests::simt;

fn check(cases: Vec<Case>) {
    simt::check(simt::on_tensor_cores("prefill", PrefillBackend::Sm80, cases));
}

#[test]
fn the_small_grid() {
    check(grid::small());
}

#[test]
fn head_dims() {
    check(simt::sample(&grid::dims(), "prefill", 12));
}

#[test]
fn stock_variants() {
    check(simt::sample(&grid::serving(), "prefill", 24));
}

#[test]
fn key_lists() {
    check(simt::key_lists("prefill"));
}

/// Rescaling is decided row by row there.
#[test]
fn fixed_splits() {
    let cases = grid::serving().into_iter().map(|case| Case { fixed_split_size: Some(128), ..case });
    check(simt::sample(&cases.collect::<Vec<_>>(), "prefill", 8));
}

#[test]
#[ignore = "minutes: `cargo xtask test --all`"]
fn the_large_grids() {
    check([grid::serving(), grid::dims()].concat());
}
