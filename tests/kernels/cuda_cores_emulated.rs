//! Kernels on CUDA cores run on the host, thread by thread, and agree with the f64 reference.

use attn_core::spec::{DecodeBackend, HeadDimVo, PrefillBackend};
use attn_testing::{Case, LayoutKind, Lens, grid};
use attn_tests::simt;

/// Runs cases on CUDA cores and fails for those that are outside of their tolerance.
fn check(cases: impl IntoIterator<Item = Case>) {
    let (prefill, decode) = (PrefillBackend::CudaCores, Some(DecodeBackend::CudaCores));
    simt::check(cases.into_iter().map(|case| Case { prefill, decode, ..case }));
}

/// The cases of a grid in f32, without those that need another kernel: `auto` means decode here.
fn in_f32(cases: Vec<Case>) -> impl Iterator<Item = Case> {
    let cases = cases.into_iter().filter(|case| case.kernel != "auto" || !case.kv_layout.levels());
    cases.map(|case| Case { dtype: "f32".to_owned(), ..case })
}

#[test]
fn the_small_grid_in_f32() {
    check(in_f32(grid::small()));
}

/// More than 16 partial states merge in groups.
#[test]
fn many_partials_merge_in_groups() {
    let (prefill, decode) = (PrefillBackend::CudaCores, Some(DecodeBackend::CudaCores));
    let case = |variant: &str, head_dim| Case {
        kernel: "decode".to_owned(),
        dtype: "f32".to_owned(),
        head_dim,
        qo_lens: Lens::List(vec![1, 1]),
        kv_lens: Lens::List(vec![1200, 70]),
        fixed_split_size: Some(64),
        prefill,
        decode,
        ..Case::new(variant)
    };
    simt::check_merges(64, 19, [case("causal + alibi", 72), case("causal + sink", 128)]);
}

#[test]
fn head_dims_of_every_multiple_of_eight() {
    let dims = [(8, 8), (24, 24), (40, 24), (72, 136), (128, 64), (200, 200), (264, 264), (504, 504), (64, 512)];
    let case = |(at, (head_dim, values)): (usize, (u32, u32))| {
        let (kernel, expr) =
            [("decode", "causal + rope + value_norm"), ("prefill", "causal + qk_norm + alibi")][at % 2];
        let (qo_heads, kv_heads) = [(3, 1), (4, 4), (10, 2)][at % 3];
        Case {
            kernel: kernel.to_owned(),
            dtype: "f32".to_owned(),
            kv_dtype: (at % 4 == 3).then(|| "e4m3".to_owned()),
            qo_heads,
            kv_heads,
            head_dim,
            head_dim_vo: HeadDimVo::Dim(values),
            kv_layout: [LayoutKind::Paged, LayoutKind::Ragged][at / 2 % 2],
            page_size: 3,
            qo_lens: Lens::List(vec![1, 5, 0, 2]),
            kv_lens: Lens::List(vec![301, 37, 9, 66]),
            ..Case::new(expr)
        }
    };
    // each pair in both kernels
    check(dims.into_iter().chain(dims).enumerate().map(case));
}

#[test]
fn sixteen_bits_and_latent_values() {
    let case = |dtype: &str, kv_dtype: Option<&str>, expr| Case {
        kernel: "decode".to_owned(),
        dtype: dtype.to_owned(),
        kv_dtype: kv_dtype.map(str::to_owned),
        qo_heads: 6,
        kv_heads: 2,
        head_dim: 72,
        kv_layout: LayoutKind::Paged,
        qo_lens: Lens::List(vec![1, 3]),
        kv_lens: Lens::List(vec![130, 515]),
        ..Case::new(expr)
    };
    let latent = HeadDimVo::SharedWithKeys(64);
    check([
        case("bf16", None, "causal + soft_cap(cap=30)"),
        case("f16", None, "causal + output_norm + sink"),
        case("bf16", Some("e4m3"), "causal + alibi"),
        case("f16", Some("e5m2"), "sigmoid"),
        Case { head_dim_vo: latent, kv_heads: 1, ..case("bf16", None, "causal") },
        Case { head_dim_vo: latent, kv_heads: 1, kernel: "prefill".to_owned(), ..case("f32", None, "causal") },
    ]);
}

#[test]
#[ignore = "minutes: `cargo xtask test --all`"]
fn samples_of_the_large_grids_in_f32() {
    let of = |grid: Vec<Case>, every| in_f32(grid.into_iter().step_by(every).collect());
    check(of(grid::dims(), 3).chain(of(grid::check(), 9)).chain(of(grid::serving(), 17)));
}
