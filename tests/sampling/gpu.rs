//! Sampling on a GPU gives the bits of the CPU, launched and replayed; a replayed graph draws anew. Skipped without a
//! GPU.
#![allow(clippy::print_stderr)]

use attn::Engine;
use attn_core::dtype::Dtype;
use attn_tests::gpu::gpu;
use attn_tests::sampling::{Drawn, SamplingCase, chi_squared, grid};

/// Where results differ, in a line.
fn difference(got: &Drawn, want: &Drawn) -> Option<String> {
    fn first<T: PartialEq + std::fmt::Debug>(name: &str, got: &[T], want: &[T]) -> Option<String> {
        let wrong = got.iter().zip(want).filter(|(a, b)| a != b).count();
        let at = got.iter().zip(want).position(|(a, b)| a != b)?;
        Some(format!("{wrong} {name}, [{at}] is {:x?}, want {:x?}; ", got[at], want[at]))
    }
    let parts = [
        first("ids", &got.ids, &want.ids),
        first("positions", &got.positions, &want.positions),
        first("counts", &got.counts, &want.counts),
        first("log_probs", &got.log_probs, &want.log_probs),
        first("probs", &got.probs, &want.probs),
        first("top_ids", &got.top_ids, &want.top_ids),
        first("top_log_probs", &got.top_log_probs, &want.top_log_probs),
    ];
    let text: String = parts.into_iter().flatten().collect();
    (!text.is_empty()).then_some(text)
}

fn check(cases: &[SamplingCase]) {
    let Some(gpu) = gpu() else { return };
    let mut wrong = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        let want = case.run(&Engine::cpu(), false, 2, |_| {});
        for captured in [false, true] {
            let got = case.run(&gpu, captured, 2, |_| {});
            wrong.extend(difference(&got, &want).map(|text| format!("{number} {}, {captured}: {text}", case.name)));
        }
    }
    eprintln!("{} cases", cases.len());
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn small_vocabularies_have_the_bits_of_the_cpu() {
    let cases = [1, 31, 111, 1027, 8192].into_iter().flat_map(|vocab| grid(Dtype::F32, 3, vocab));
    check(&cases.chain(grid(Dtype::F32, 300, 111)).chain(grid(Dtype::Bf16, 3, 513)).collect::<Vec<_>>());
}

#[test]
fn clusters_have_the_bits_of_the_cpu() {
    let cases = [8193, 32_000, 128_256].into_iter().flat_map(|vocab| grid(Dtype::F32, 3, vocab));
    let halves = [Dtype::F16, Dtype::Bf16].into_iter().flat_map(|dtype| grid(dtype, 3, 32_001));
    check(&cases.chain(halves).chain(grid(Dtype::F32, 40, 9000)).collect::<Vec<_>>());
}

#[test]
fn vocabularies_beyond_shared_memory() {
    check(&grid(Dtype::F32, 3, 600_001));
}

#[test]
fn a_replayed_graph_draws_anew_and_from_the_distribution() {
    let Some(gpu) = gpu() else { return };
    for vocab in [111, 32_000] {
        // all rows are alike but for their seeds
        let mut case = SamplingCase::new("replays", Dtype::F32, 32, vocab);
        let row = case.values[..vocab].to_vec();
        case.values = row.repeat(32);
        case.top_p = vec![0.9];
        let (mut drawn, mut same) = (vec![0u32; vocab], 0);
        let mut before = Vec::new();
        let last = case.run(&gpu, true, 1000, |ids| {
            ids.iter().for_each(|&id| drawn[id as usize] += 1);
            same += usize::from(before == ids);
            before = ids.to_vec();
        });
        assert_eq!(same, 0, "a replay drew the tokens of the one before");
        assert_eq!(last.positions, (0..32).map(|row| row + 1000).collect::<Vec<i64>>());
        let probs: Vec<f64> = last.probs[..vocab].iter().map(|&x| f64::from(f32::from_bits(x))).collect();
        let (statistic, limit) = chi_squared(&drawn, &probs);
        assert!(statistic < limit, "{statistic} of {limit} at {vocab}");
    }
}
