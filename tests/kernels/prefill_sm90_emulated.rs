//! Prefill on WGMMA and TMA runs on the host, thread by thread, and agrees with the f64 reference.

use attn_core::spec::{HeadDimVo, PrefillBackend};
use attn_testing::{Case, LayoutKind, Lens, grid};
use attn_tests::simt;

fn check(cases: Vec<Case>) {
    simt::check(simt::on_tensor_cores("prefill", PrefillBackend::Sm90, cases));
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

/// Rows of more than 128 elements: tiles have fewer keys than rows, so that one warpgroup may skip a tile that the
/// other one sees.
#[test]
fn long_rows() {
    let case = |(number, (variant, head_dim)): (usize, (&str, u32))| Case {
        name: Some(format!("{variant} of {head_dim}")),
        kernel: "prefill".to_owned(),
        head_dim,
        qo_heads: 2,
        kv_heads: 1 + number as u32 % 2,
        kv_layout: [LayoutKind::Ragged, LayoutKind::Paged][number % 2],
        page_size: [8, 5, 16][number % 3],
        qo_lens: Lens::List(vec![70, 0, 230, 1]),
        kv_lens: Lens::List(vec![270, 9, 230, 1]),
        seed: number as u64,
        ..Case::new(variant)
    };
    // the last mask is no interval: 80 keys of a tile are two and a half of a lane
    let variants = [
        "causal",
        "full",
        "causal + alibi",
        "sliding_window(window=30)",
        "causal + soft_cap(cap=30)",
        "streaming(sink=4, window=30)",
    ];
    let cases = variants.into_iter().flat_map(|variant| [256, 208].map(|head_dim| (variant, head_dim)));
    check(cases.enumerate().map(case).collect());
}

/// Keys of 192 elements and values of 128: the row max is lazy, and here exceeded late.
#[test]
fn keys_longer_than_values() {
    let case = |(number, variant): (usize, &str)| Case {
        name: Some(format!("{variant} of 192 and 128")),
        kernel: "prefill".to_owned(),
        head_dim: 192,
        head_dim_vo: HeadDimVo::Dim(128),
        qo_heads: 2,
        kv_layout: [LayoutKind::Ragged, LayoutKind::Paged][number % 2],
        q_std: (number > 1).then_some(300.0),
        qo_lens: Lens::List(vec![70, 0, 230, 1]),
        kv_lens: Lens::List(vec![270, 9, 400, 1]),
        seed: number as u64,
        ..Case::new(variant)
    };
    let variants = ["causal", "causal + alibi", "full", "causal", "causal + soft_cap(cap=30)"];
    check(variants.into_iter().enumerate().map(case).collect());
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

fn with_e4m3_compute(cases: &[Case]) -> Vec<Case> {
    cases.iter().filter_map(Case::with_e4m3_compute).collect()
}

#[test]
fn e4m3_compute_over_the_small_grid() {
    check(with_e4m3_compute(&grid::small()));
}

#[test]
fn e4m3_compute_of_stock_variants() {
    check(simt::sample(&with_e4m3_compute(&grid::serving()), "prefill", 6));
}

/// Every tile's row max is searched for there, row by row.
#[test]
fn e4m3_compute_in_fixed_splits() {
    let cases = with_e4m3_compute(&grid::serving()).into_iter();
    let cases = cases.map(|case| Case { fixed_split_size: Some(128), ..case });
    check(simt::sample(&cases.collect::<Vec<_>>(), "prefill", 12));
}

/// Logits that exceed the row max of the tiles before: late, at once, and in rows of few keys.
#[test]
fn e4m3_compute_of_large_logits() {
    let case = |(number, (variant, q_std)): (usize, (&str, f32))| Case {
        name: Some(format!("{variant} of {q_std}")),
        kernel: "prefill".to_owned(),
        q_std: Some(q_std),
        kv_layout: [LayoutKind::Ragged, LayoutKind::Paged][number % 2],
        page_size: [8, 5, 16][number % 3],
        kv_scale: Some(0.75),
        kv_scale_per_head: number % 3 == 1,
        qo_lens: Lens::List(vec![70, 0, 130, 1]),
        kv_lens: Lens::List(vec![700, 9, 130, 1]),
        seed: number as u64,
        ..Case::new(variant)
    };
    let variants = ["full", "causal", "causal + sink", "sliding_window(window=100)", "causal + alibi"];
    let cases: Vec<_> = variants.into_iter().flat_map(|variant| [6.0, 40.0].map(|std| (variant, std))).collect();
    check(with_e4m3_compute(&cases.into_iter().enumerate().map(case).collect::<Vec<_>>()));
}
