//! The sampling kernel, emulated on the host with threads in random order, gives the bits of the CPU.

use attn::Engine;
use attn_core::{dtype::Dtype, sampling::Source};
use attn_tests::sampling::{SamplingCase, grid, normals};
use attn_tests::simt::HostSampler;
use rayon::prelude::*;

fn check(cases: &[SamplingCase], dtype: Dtype) {
    let folders = [Source::Logits, Source::Probs].map(|source| (source, tempfile::tempdir().expect("a folder")));
    let samplers = folders.each_ref().map(|(source, folder)| HostSampler::compile(dtype, *source, folder.path()));
    // the emulated threads are global to a library
    let [logits, probs] = samplers.map(std::sync::Mutex::new);
    let wrong: Vec<String> = cases
        .par_iter()
        .flat_map_iter(|case| {
            let want = case.run(&Engine::cpu(), false, 1, |_| {});
            let sampler = if case.source == Source::Logits { &logits } else { &probs };
            let got = [true, false].map(|resident| {
                let sampler = sampler.lock().expect("no panic before");
                (resident, case.run_emulated(&sampler, resident, case.vocab as u32))
            });
            got.into_iter()
                .filter_map(move |(resident, got)| {
                    let differs = got != want;
                    differs.then(|| format!("{}, resident {resident}:\n{got:?}\n{want:?}", case.name))
                })
                .map(|text| text.chars().take(3000).collect::<String>())
                .collect::<Vec<_>>()
        })
        .collect();
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn f32_rows_of_every_length() {
    let cases: Vec<_> =
        [1, 2, 31, 111, 512, 1000, 5003].into_iter().flat_map(|vocab| grid(Dtype::F32, 3, vocab)).collect();
    check(&cases, Dtype::F32);
}

/// Rows so flat, and filters that keep so few tokens, that all candidates of a first round are often rejected.
#[test]
fn draws_of_several_rounds() {
    let (rows, vocab) = (40, 3000);
    let flat = |name| {
        let values = normals(rows * vocab, 5, 0.2);
        SamplingCase { values, ..SamplingCase::new(name, Dtype::F32, rows, vocab) }.of_ids_alone()
    };
    let cases = [
        SamplingCase { top_p: vec![0.01, 0.03, 0.06, 0.1], ..flat("small top-p") },
        SamplingCase { min_p: vec![0.7, 0.75, 0.8, 0.9], ..flat("large min-p") },
        SamplingCase { top_p: vec![0.05, 0.3], min_p: vec![0.3, 0.75], ..flat("both") },
    ];
    check(&cases, Dtype::F32);
}

#[test]
fn halves() {
    for dtype in [Dtype::F16, Dtype::Bf16] {
        check(&grid(dtype, 3, 513), dtype);
    }
}
