//! Kernels over rows of KV formats run on the host, thread by thread, and agree with the f64 reference over the decoded
//! rows.

use attn_core::spec::{DecodeBackend, HeadDimVo, PrefillBackend};
use attn_testing::{Case, LayoutKind, Lens, Order, grid};
use attn_tests::simt;

const ON_TENSOR_CORES: (PrefillBackend, DecodeBackend) = (PrefillBackend::Sm80, DecodeBackend::TensorCores);
const ON_WGMMA: (PrefillBackend, DecodeBackend) = (PrefillBackend::Sm90, DecodeBackend::TensorCores);
const ON_CUDA_CORES: (PrefillBackend, DecodeBackend) = (PrefillBackend::CudaCores, DecodeBackend::CudaCores);

/// Formats, a variant and the head dimension.
type Of = (&'static str, &'static str, u32);

/// Every size of rows, and hooks before and after the products.
const MANY: [Of; 12] = [
    ("int8", "causal", 128),
    ("int4(group=32)", "causal", 128),
    ("int8 / int4(group=32, zero=true)", "causal + rope + soft_cap(cap=30)", 64),
    ("int4(group=32, zero=true) / int8", "alibi", 256),
    ("int8", "causal + rope", 96),
    ("nvfp4", "causal + value_norm", 64),
    ("mx_fp8 / turbo4", "causal + output_norm", 128),
    ("bf16 / int4(group=32)", "causal + qk_norm", 64),
    ("int4(group=8)", "sigmoid", 16),
    ("int4(group=64)", "causal + rope + value_norm", 256),
    ("turbo4 / int4(group=32)", "causal + rope + hadamard", 128),
    // hooks and formats that divide by their parameters
    ("int4(group=64) / int4(group=32)", "dilated_window(window=64, dilation=3)", 128),
];

const FEW: [&str; 3] = ["int8", "int4(group=32)", "int4(group=32, zero=true)"];

/// A case of a few requests: ragged or paged, heads before slots or behind, one to twelve query heads of a KV head.
fn case(
    kernel: &str,
    (expr, head_dim): (&str, u32),
    (prefill, decode): (PrefillBackend, DecodeBackend),
    at: usize,
) -> Case {
    Case {
        kernel: kernel.to_owned(),
        qo_heads: [4, 6, 12][at % 3],
        kv_heads: [4, 2, 1][at % 3],
        head_dim,
        kv_layout: [LayoutKind::Paged, LayoutKind::Ragged, LayoutKind::BlockTable][at / 2 % 3],
        page_order: [Order::Nhd, Order::Hnd][at % 2],
        page_size: [5, 16, 1][at % 3],
        qo_lens: Lens::List(if kernel == "decode" { vec![1, 2, 0, 1] } else { vec![1, 37, 0, 9] }),
        kv_lens: Lens::List(vec![301, 37, 9, 130]),
        kv_scale: (at % 2 == 1).then_some(0.5),
        kv_scale_per_head: at % 4 == 3,
        prefill,
        decode: Some(decode),
        ..Case::new(expr)
    }
}

fn over(formats: &str, case: &Case) -> Case {
    case.over_format(formats).expect("it counts no keys")
}

fn check(kernel: &str, backends: (PrefillBackend, DecodeBackend), of: &[Of]) {
    let cases = of.iter().enumerate();
    simt::check(cases.map(|(at, &(formats, expr, dim))| over(formats, &case(kernel, (expr, dim), backends, at))));
}

#[test]
fn decode_on_tensor_cores() {
    check("decode", ON_TENSOR_CORES, &MANY);
}

/// Codes that are floats and levels, of keys and of values: scales of large groups and of small ones.
#[test]
fn decode_over_codes_of_floats() {
    let of = [
        ("nvfp4", "causal", 128),
        ("nvfp4", "alibi", 64),
        ("turbo4 / nvfp4", "causal + soft_cap(cap=30)", 128),
        ("nvfp4 / mx_fp8", "full", 128),
        ("mx_fp8", "causal", 256),
        ("turbo4", "causal", 64),
        // rows that are shorter than a group are decoded
        ("mx_fp8", "causal", 16),
        ("turbo4(levels=[-9, -7, -5, -3, -2, -1, -0.5, 0, 0.25, 0.5, 1, 2, 3, 5, 6.5, 8])", "sigmoid", 128),
    ];
    check("decode", ON_TENSOR_CORES, &of);
}

/// Weights of no softmax may be far below what f16 holds.
#[test]
fn decode_over_codes_with_small_weights() {
    let of = ["mx_fp8", "nvfp4", "turbo4", "int8", "int4(group=32, zero=true)"];
    check("decode", ON_TENSOR_CORES, &of.map(|formats| (formats, "silu(n=300000000)", 128)));
    check("decode", ON_TENSOR_CORES, &of.map(|formats| (formats, "causal + relu(squared=true)", 64)));
}

#[test]
fn decode_on_cuda_cores() {
    check("decode", ON_CUDA_CORES, &MANY);
    check("decode", ON_CUDA_CORES, &[("int8", "causal", 72), ("int8", "causal + rope", 8)]);
}

#[test]
fn prefill() {
    check("prefill", ON_TENSOR_CORES, &MANY);
}

#[test]
fn prefill_on_wgmma() {
    check("prefill", ON_WGMMA, &MANY);
}

#[test]
fn prefill_on_cuda_cores() {
    check("prefill", ON_CUDA_CORES, &MANY);
}

#[test]
fn mixed() {
    check("mixed", ON_TENSOR_CORES, &MANY[..6]);
}

#[test]
fn over_f32_queries() {
    let cases = MANY.iter().enumerate().map(|(at, &(formats, expr, head_dim))| {
        let kernel = ["decode", "prefill"][at % 2];
        over(formats, &Case { dtype: "f32".to_owned(), ..case(kernel, (expr, head_dim), ON_CUDA_CORES, at) })
    });
    simt::check(cases);
}

/// Values are the first elements of keys, in the same rows; with a hook on keys they are read by themselves.
#[test]
fn latent_records() {
    let latent = |kernel: &str, expr, backends, at: usize| Case {
        head_dim_vo: HeadDimVo::SharedWithKeys(512),
        qo_heads: 16,
        kv_heads: 1,
        kv_lens: Lens::List(vec![90, 37, 9, 70]),
        ..case(kernel, (expr, 576), backends, at)
    };
    let cases = [
        (latent("decode", "causal", ON_TENSOR_CORES, 0), "ds_mla"),
        (latent("decode", "causal", ON_CUDA_CORES, 1), "ds_mla"),
        (latent("prefill", "causal", ON_TENSOR_CORES, 2), "ds_mla"),
        (latent("decode", "causal", ON_TENSOR_CORES, 3), "int8"),
        (latent("decode", "causal + rope", ON_TENSOR_CORES, 4), "ds_mla"),
        (latent("prefill", "causal + rope", ON_TENSOR_CORES, 5), "ds_mla"),
    ];
    simt::check(cases.map(|(case, formats)| over(formats, &case)));
}

#[test]
fn cascades() {
    let levels = grid::small().into_iter().chain(grid::serving()).filter(|case| case.kv_layout.levels());
    let cases = levels.filter(|case| case.check_cost() < 20_000_000 && case.head_dim % 32 == 0).step_by(9).take(6);
    let (prefill, decode) = ON_TENSOR_CORES;
    let cases = cases.map(|case| Case {
        kernel: "mixed".to_owned(),
        prefill,
        decode: Some(decode),
        dtype: "bf16".to_owned(),
        kv_dtype: None,
        ..case
    });
    simt::check(cases.zip(FEW.into_iter().cycle()).map(|(case, formats)| over(formats, &case)));
}

#[test]
fn kv_lists() {
    let lists = |kernel, (prefill, decode)| {
        let cases = simt::key_lists(kernel).into_iter();
        cases.map(move |case| Case { prefill, decode: Some(decode), ..case })
    };
    let cases = lists("decode", ON_TENSOR_CORES).chain(lists("prefill", ON_TENSOR_CORES));
    let cases = cases.chain(lists("decode", ON_CUDA_CORES));
    simt::check(cases.zip(FEW.into_iter().cycle()).map(|(case, formats)| over(formats, &case)));
}

/// Cases of the grid of formats, on tensor cores and on CUDA cores.
fn of_the_grid(sampled: Option<usize>) -> Vec<Case> {
    let known = |case: &Case| case.dtypes().is_ok_and(|dtypes| dtypes.format.is_some());
    let of = |(prefill, decode): (PrefillBackend, DecodeBackend)| {
        let on = move |case: &Case| case.prefill == prefill && case.decode.is_none_or(|of| of == decode);
        let cases = grid::formats().into_iter().filter(|case| known(case) && on(case));
        cases.map(|case| Case { decode: Some(decode), ..case }).collect::<Vec<_>>()
    };
    let all = [ON_TENSOR_CORES, ON_WGMMA, ON_CUDA_CORES].map(of).concat();
    let kernels = ["decode", "prefill", "mixed"].into_iter();
    let all = kernels.flat_map(|kernel| match sampled {
        Some(every) => simt::sample(&all, kernel, every),
        None => all.iter().filter(|case| case.kernel == kernel).cloned().collect(),
    });
    all.collect()
}

/// Every stock format in every kernel.
#[test]
fn samples_of_the_grid() {
    simt::check(of_the_grid(Some(24)));
}

#[test]
#[ignore = "minutes: `cargo xtask test --all`"]
fn the_grid() {
    simt::check(of_the_grid(None));
}
