//! Emulated kernels under the sanitizers of addresses and of undefined behaviour.

use attn_core::spec::PrefillBackend;
use attn_testing::{Case, LayoutKind, Lens};
use attn_tests::{sanitizers, simt};

/// Small cases of a kernel family: ragged and paged, over 16 bits and fp8.
fn cases(kernel: &str) -> Vec<Case> {
    let case = |variant: &str, head_dim, kv_layout, kv_dtype: Option<&str>| Case {
        kernel: kernel.to_owned(),
        kv_dtype: kv_dtype.map(str::to_owned),
        head_dim,
        kv_layout,
        page_size: 5,
        qo_heads: 6,
        qo_lens: Lens::List(if kernel == "decode" { vec![1, 0, 2] } else { vec![17, 1, 70] }),
        kv_lens: Lens::List(vec![133, 9, 70]),
        ..Case::new(variant)
    };
    vec![
        case("causal + sliding_window(window=33) + sink", 64, LayoutKind::Paged, None),
        case("causal + rope + soft_cap(cap=30)", 128, LayoutKind::Ragged, None),
        case("causal + alibi", 80, LayoutKind::Paged, Some("e4m3")),
    ]
}

fn check(kernel: &'static str, prefill: PrefillBackend) {
    simt::check(simt::on_tensor_cores(kernel, prefill, attn_needs::sample(cases(kernel), 2)));
}

/// A case whose partial states merge in groups.
fn groups() -> Case {
    Case {
        kernel: "decode".to_owned(),
        qo_lens: Lens::List(vec![1]),
        kv_lens: Lens::List(vec![1200]),
        fixed_split_size: Some(64),
        ..Case::new("causal")
    }
}

/// Rows of KV formats, whose pools are allocations of their own.
fn over_formats(kernel: &str) -> Vec<Case> {
    let formats = ["int8 / int4(group=32)", "turbo4 / mx_fp8", "nvfp4"];
    let cases = cases(kernel).into_iter().zip(formats);
    cases.filter_map(|(case, format)| Case { kv_dtype: None, head_dim: 64, ..case }.over_format(format)).collect()
}

#[test]
#[ignore = "in a process of its own"]
fn kernels() {
    check("prefill", PrefillBackend::Sm80);
    check("decode", PrefillBackend::Sm80);
    simt::check(simt::on_tensor_cores("decode", PrefillBackend::Sm80, [groups()]));
    for kernel in ["prefill", "decode"] {
        simt::check(simt::on_tensor_cores(kernel, PrefillBackend::Sm80, over_formats(kernel)));
    }
    check("mixed", PrefillBackend::Sm80);
    check("mixed", PrefillBackend::Sm90);
    check("prefill", PrefillBackend::Sm90);
}

#[test]
fn kernels_are_free_of_undefined_behaviour() {
    sanitizers::run("sanitized_emulated::kernels");
}
