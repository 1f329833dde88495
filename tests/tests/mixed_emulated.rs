//! Mixed launches run on the host, thread by thread, and agree with the f64 reference: with prefill on `mma.sync`, and
//! with prefill on WGMMA, whose CTAs decode first.

use attn_core::spec::PrefillBackend::{self, Sm80, Sm90};
use attn_testing::{Case, grid};
use attn_tests::simt;

/// With [`Sm90`] those cases that have such a kernel; the others have that of [`Sm80`].
fn check(prefill: PrefillBackend, cases: Vec<Case>) {
    let cases = simt::on_tensor_cores("mixed", prefill, cases);
    simt::check(cases.filter(|case| prefill != Sm90 || simt::has_sm90_prefill(case)));
}

#[test]
fn the_small_grid() {
    check(Sm80, grid::small());
}

#[test]
fn the_small_grid_on_wgmma() {
    check(Sm90, grid::small());
}

#[test]
fn stock_variants() {
    check(Sm80, simt::sample(&grid::serving(), "mixed", 24));
}

#[test]
fn stock_variants_on_wgmma() {
    check(Sm90, simt::sample(&grid::serving(), "mixed", 24));
}

#[test]
#[ignore = "minutes: `cargo xtask test --all`"]
fn the_large_grids() {
    check(Sm80, grid::serving());
}

#[test]
#[ignore = "minutes: `cargo xtask test --all`"]
fn the_large_grids_on_wgmma() {
    check(Sm90, grid::serving());
}
