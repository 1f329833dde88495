//! Outputs of another type than queries, rounded once, by each kernel family on the host, against the f64 reference.

use attn_core::spec::{DecodeBackend, PrefillBackend};
use attn_testing::{Case, Lens};
use attn_tests::simt;

use crate::outputs;

fn cases(kernel: &'static str, prefill: PrefillBackend) -> impl Iterator<Item = Case> {
    simt::on_tensor_cores(kernel, prefill, outputs::cases())
}

#[test]
fn prefill_by_mma_sync() {
    simt::check(cases("prefill", PrefillBackend::Sm80));
}

#[test]
fn prefill_by_wgmma() {
    simt::check(cases("prefill", PrefillBackend::Sm90));
}

/// O of long rows has no shared memory of its own: rows are staged where Q was, which Q of the next work item awaits.
#[test]
fn prefill_by_wgmma_of_long_rows() {
    let case = |(number, o_dtype): (usize, &str)| Case {
        kernel: "prefill".to_owned(),
        head_dim: [256, 208][number],
        qo_lens: Lens::List(vec![300, 17]),
        kv_lens: Lens::List(vec![300, 70]),
        o_dtype: Some(o_dtype.to_owned()),
        ..Case::new(["causal", "full"][number])
    };
    let cases = ["f32", "e4m3"].into_iter().enumerate().map(case);
    simt::check(simt::on_tensor_cores("prefill", PrefillBackend::Sm90, cases));
}

#[test]
fn prefill_with_e4m3_compute() {
    let cases = outputs::cases().into_iter().filter_map(|case| case.with_e4m3_compute());
    simt::check(simt::on_tensor_cores("prefill", PrefillBackend::Sm90, cases));
}

#[test]
fn decode() {
    simt::check(cases("decode", PrefillBackend::Sm80));
}

#[test]
fn mixed_launches() {
    simt::check(cases("mixed", PrefillBackend::Sm80));
}

#[test]
fn cuda_cores() {
    let (prefill, decode) = (PrefillBackend::CudaCores, Some(DecodeBackend::CudaCores));
    let quantised = |case: &Case| case.o_dtype.as_deref() == Some("e4m3");
    let of = |case: Case| Case { dtype: "f32".to_owned(), prefill, decode, ..case };
    simt::check(outputs::cases().into_iter().filter(quantised).map(of));
}
