//! Split-KV decode on `mma.sync` runs on the host, thread by thread, and agrees with the f64 reference.

use attn_core::spec::PrefillBackend;
use attn_testing::{Case, grid};
use attn_tests::simt;

fn check(cases: Vec<Case>) {
    simt::check(simt::on_tensor_cores("decode", PrefillBackend::Sm80, cases));
}

#[test]
fn the_small_grid() {
    check(grid::small());
}

#[test]
fn head_dims() {
    check(simt::sample(&grid::dims(), "decode", 12));
}

#[test]
fn stock_variants() {
    check(simt::sample(&grid::serving(), "decode", 24));
}

/// Rows have more partial states than a merge loads at once.
#[test]
fn fixed_splits() {
    let cases = grid::serving().into_iter().map(|case| Case { fixed_split_size: Some(64), ..case });
    check(simt::sample(&cases.collect::<Vec<_>>(), "decode", 96));
}

#[test]
#[ignore = "minutes: `cargo xtask test --all`"]
fn the_large_grids() {
    check([grid::serving(), grid::dims()].concat());
}
