//! A sink and an output transform apply once, after the merge: not in KV splits, and in no partial run. Each kernel
//! family runs on the host, whole and partial, and agrees with the f64 reference.

use attn_core::spec::{DecodeBackend, PrefillBackend};
use attn_testing::{Case, Lens, grid};
use attn_tests::simt;

fn cases(kernel: &'static str, prefill: PrefillBackend) -> impl Iterator<Item = Case> {
    simt::on_tensor_cores(kernel, prefill, grid::partial())
}

#[test]
fn prefill_by_mma_sync() {
    simt::check(cases("prefill", PrefillBackend::Sm80));
}

#[test]
fn prefill_by_wgmma() {
    simt::check(cases("prefill", PrefillBackend::Sm90));
}

#[test]
fn prefill_of_short_prompts() {
    // keys stay in shared memory
    let short = |case: &Case| case.head_dim == 128 && case.fixed_split_size.is_none();
    let cut = |case: Case| {
        let keys = case.kv_lens.to_vec().into_iter().map(|keys| keys.min(128)).collect();
        Case { kv_lens: Lens::List(keys), ..case }
    };
    simt::check(cases("prefill", PrefillBackend::Sm90Resident).filter(short).map(cut));
}

#[test]
fn prefill_with_e4m3_compute() {
    let cases = grid::partial().into_iter().filter_map(|case| case.with_e4m3_compute());
    simt::check(simt::on_tensor_cores("prefill", PrefillBackend::Sm90, cases));
}

#[test]
fn decode() {
    simt::check(cases("decode", PrefillBackend::Sm80));
}

/// Of many partials groups are merged first.
#[test]
fn decode_of_many_splits() {
    let long = |case: &Case| case.kv_lens.to_vec() == [1500];
    let split = |case| Case { kv_lens: Lens::List(vec![2300]), fixed_split_size: Some(128), ..case };
    simt::check_merges(64, 17, cases("decode", PrefillBackend::Sm80).filter(long).map(split).take(4));
}

#[test]
fn decode_over_a_kv_format() {
    let softmax = |case: &Case| !case.variant.contains("retention");
    let over = |case: Case| case.over_format("int8").expect("it counts no keys");
    simt::check(cases("decode", PrefillBackend::Sm80).filter(softmax).map(over));
}

#[test]
fn mixed_launches() {
    simt::check(cases("mixed", PrefillBackend::Sm80));
}

#[test]
fn mixed_launches_with_wgmma() {
    simt::check(cases("mixed", PrefillBackend::Sm90).filter(simt::has_sm90_prefill));
}

#[test]
fn cuda_cores() {
    let (prefill, decode) = (PrefillBackend::CudaCores, Some(DecodeBackend::CudaCores));
    let of = |case| Case { dtype: "f32".to_owned(), prefill, decode, ..case };
    simt::check(grid::partial().into_iter().map(of));
}

/// The grid has rows of several partials in each kernel.
#[test]
fn rows_are_merged() {
    let split = |case: &Case| case.kv_lens.to_vec().iter().any(|&keys| keys >= 900);
    for (kernel, prefill) in
        [("prefill", PrefillBackend::Sm80), ("decode", PrefillBackend::Sm80), ("mixed", PrefillBackend::Sm80)]
    {
        simt::check_merges(6, 2, cases(kernel, prefill).filter(split).take(2));
    }
}
