//! Mixed launches on `mma.sync` run on the host, thread by thread, and agree with the f64 reference.

use attn_core::spec::PrefillBackend;
use attn_testing::{Case, grid};
use attn_tests::simt;

fn check(cases: Vec<Case>) {
    simt::check(simt::on_tensor_cores("mixed", PrefillBackend::Sm80, cases));
}

#[test]
fn the_small_grid() {
    check(grid::small());
}

#[test]
fn stock_variants() {
    check(simt::sample(&grid::serving(), "mixed", 24));
}

#[test]
#[ignore = "minutes: `cargo xtask test --all`"]
fn the_large_grids() {
    check(grid::serving());
}
