//! Kernels with long hooks, which have another text, run on the host and agree with the f64 reference.

use attn_core::spec::{DecodeBackend, PrefillBackend};
use attn_testing::{Case, LayoutKind, Lens};
use attn_tests::{long_hooks, simt};

/// A case of each variant in a kernel family, paged or ragged by turns.
fn cases(kernel: &'static str, qo_lens: &[u32], kv_lens: &[u32]) -> Vec<Case> {
    attn_core::registry::register(long_hooks::variants()).expect("no two share a name");
    let lens = |lens: &[u32]| Lens::List(lens.to_vec());
    let case = |(at, name): (usize, &str)| Case {
        kernel: kernel.to_owned(),
        kv_layout: [LayoutKind::Ragged, LayoutKind::Paged][at % 2],
        qo_lens: lens(qo_lens),
        kv_lens: lens(kv_lens),
        ..Case::new(name)
    };
    long_hooks::variants().iter().map(|desc| desc.name).enumerate().map(case).collect()
}

#[test]
fn prefill_on_wgmma() {
    simt::check(simt::on_tensor_cores("prefill", PrefillBackend::Sm90, cases("prefill", &[70, 3], &[150, 129])));
}

#[test]
fn prefill_on_mma_sync() {
    simt::check(simt::on_tensor_cores("prefill", PrefillBackend::Sm80, cases("prefill", &[70, 3], &[150, 129])));
}

#[test]
fn decode_and_mixed_launches() {
    let decode = cases("decode", &[1, 2], &[140, 65]);
    simt::check(simt::on_tensor_cores("decode", PrefillBackend::Sm80, decode));
    let mixed = cases("mixed", &[1, 20], &[140, 65]);
    simt::check(simt::on_tensor_cores("mixed", PrefillBackend::Sm80, mixed));
}

#[test]
fn cuda_cores() {
    let prefill = cases("prefill", &[20, 3], &[70, 65]);
    let all = prefill.into_iter().chain(cases("decode", &[1, 2], &[140, 65]));
    let (prefill, decode) = (PrefillBackend::CudaCores, Some(DecodeBackend::CudaCores));
    simt::check(all.map(|case| Case { prefill, decode, ..case }));
}
