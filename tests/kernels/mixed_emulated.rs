//! Mixed launches run on the host, thread by thread, and agree with the f64 reference: with prefill on `mma.sync`, and
//! with prefill on WGMMA, whose CTAs decode first.

use attn_core::spec::{
    HeadDimVo,
    PrefillBackend::{self, Sm80, Sm90},
};
use attn_testing::{Case, LayoutKind, Lens, grid};
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

/// Prefill reads keys that were decoded before, of its requests alone.
#[test]
fn kv_formats_on_wgmma() {
    check(Sm90, simt::sample(&grid::formats(), "mixed", 8));
}

/// Rows of 8 bits fit the pipelines of all warps.
#[test]
fn long_rows_of_8_bits_on_wgmma() {
    let case = |kv_layout, head_dim| Case {
        kernel: "mixed".to_owned(),
        kv_dtype: Some("e4m3".to_owned()),
        qo_heads: 4,
        kv_heads: 2,
        head_dim,
        kv_layout,
        qo_lens: Lens::List(vec![1, 37, 2]),
        kv_lens: Lens::List(vec![133, 70, 9]),
        ..Case::new("causal + soft_cap(cap=30)")
    };
    // and keys with short values
    let short = Case { kv_dtype: None, head_dim_vo: HeadDimVo::Dim(64), ..case(LayoutKind::Paged, 192) };
    let cases = [case(LayoutKind::Paged, 256), case(LayoutKind::Ragged, 192), short];
    let cases: Vec<_> = simt::on_tensor_cores("mixed", Sm90, cases).collect();
    assert!(cases.iter().all(simt::has_sm90_prefill));
    simt::check(cases);
}

/// A mixed case with rows of at least `partials` partials, on a device that holds `ctas` CTAs: few CTAs split no row so
/// often.
fn check_merges(prefill: PrefillBackend, ctas: u32, partials: u32, [kv_heads, head_dim, keys]: [u32; 3]) {
    let case = Case {
        kernel: "mixed".to_owned(),
        qo_heads: 4,
        kv_heads,
        head_dim,
        qo_lens: Lens::List(vec![1, 20, 1]),
        kv_lens: Lens::List(vec![keys, keys, 40]),
        ..Case::new("causal + sink")
    };
    let cases: Vec<_> = simt::on_tensor_cores("mixed", prefill, [case]).collect();
    assert!(cases.iter().all(|case| prefill == Sm80 || simt::has_sm90_prefill(case)));
    simt::check_merges(ctas, partials, cases);
}

/// A team of lanes loads eight partials of a row at once.
#[test]
fn teams_share_rows_of_more_partials_than_one_of_them_loads() {
    // two teams a row; eight, the last without partials; all four of a CTA, which load twice
    check_merges(Sm80, 48, 9, [2, 64, 3000]);
    check_merges(Sm80, 160, 34, [1, 64, 9000]);
    check_merges(Sm80, 160, 33, [1, 256, 9000]);
}

#[test]
fn teams_share_rows_of_more_partials_than_one_of_them_loads_on_wgmma() {
    check_merges(Sm90, 48, 9, [2, 64, 3000]);
    check_merges(Sm90, 160, 17, [1, 64, 9000]);
}

#[test]
#[ignore = "minutes: `cargo xtask test --all`"]
fn the_large_grids() {
    check(Sm80, grid::serving());
}

#[test]
#[ignore = "minutes: `cargo xtask test --all`"]
fn the_large_grids_on_wgmma() {
    check(Sm90, [grid::serving(), grid::formats()].concat());
}
