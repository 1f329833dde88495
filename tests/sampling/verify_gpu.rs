//! Verification and filters on a GPU give the bits of the CPU. Skipped without a GPU.
#![allow(clippy::print_stderr)]

use attn::{Engine, sampling::FilterOrder};
use attn_tests::filters::{Filtering, Filters, filtered};
use attn_tests::gpu::gpu;
use attn_tests::sampling::normals;
use attn_tests::verify::{ChainCase, How, TreeCase, Verified, chains, trees};

/// Compares cases, by names and what runs them.
fn check(cases: impl Iterator<Item = (String, impl Fn(&Engine, How) -> Verified)>) {
    let Some(gpu) = gpu() else { return };
    let (mut count, mut wrong) = (0, Vec::new());
    for (name, run) in cases {
        let want = run(&Engine::cpu(), How::Launched);
        for how in [How::Launched, How::Replayed] {
            count += 1;
            wrong.extend(run(&gpu, how).difference(&want).map(|text| format!("{name}, {how:?}: {text}")));
        }
    }
    eprintln!("{count} runs");
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

fn check_chains(requests: usize, vocabs: &[usize]) {
    let cases = vocabs.iter().flat_map(|&vocab| chains(requests, vocab));
    check(cases.map(|case| (case.name.clone(), move |engine: &Engine, how| case.run(engine, how))));
}

fn check_trees(requests: usize, vocabs: &[usize]) {
    let cases = vocabs.iter().flat_map(|&vocab| trees(requests, vocab));
    check(cases.map(|case| (case.name.clone(), move |engine: &Engine, how| case.run(engine, how))));
}

#[test]
fn small_chains_have_the_bits_of_the_cpu() {
    check_chains(5, &[1, 31, 111, 1027, 8192]);
}

#[test]
fn chains_in_clusters_have_the_bits_of_the_cpu() {
    check_chains(2, &[8193, 9001, 32_001]);
    check_chains(1, &[128_256]);
}

#[test]
fn requests_that_fill_the_device_have_the_bits_of_the_cpu() {
    // one CTA a request, though the vocabularies are large
    let chain = ChainCase::random([150, 2, 9001]);
    check(std::iter::once((chain.name.clone(), move |engine: &Engine, how| chain.run(engine, how))));
    let tree = TreeCase::random([150, 4, 9001]);
    check(std::iter::once((tree.name.clone(), move |engine: &Engine, how| tree.run(engine, how))));
}

#[test]
fn small_trees_have_the_bits_of_the_cpu() {
    check_trees(5, &[1, 31, 111, 1027, 8192]);
}

#[test]
fn trees_in_clusters_have_the_bits_of_the_cpu() {
    check_trees(2, &[8193, 9001, 32_001]);
}

#[test]
fn filtered_rows_have_the_bits_of_the_cpu() {
    let Some(gpu) = gpu() else { return };
    for (vocab, gap) in [(1, 0), (111, 1), (1027, 0), (9001, 3), (32_000, 0)] {
        let stride = vocab + gap;
        let mut logits = normals(3 * stride, 12, 2.0);
        logits[vocab / 2] = f32::NAN;
        logits[stride + vocab / 3] = f32::INFINITY;
        let probs: Vec<f32> = logits.iter().map(|x| x.exp() * 0.01).collect();
        for order in [FilterOrder::TopKFirst, FilterOrder::Joint] {
            for min_p in [0.0, 0.05] {
                let of = Filters { temperature: 0.7, top_k: 40, top_p: 0.8, min_p, order };
                for what in [Filtering::Softmax, Filtering::Mask, Filtering::Renorm] {
                    let values = if what == Filtering::Renorm { &probs } else { &logits };
                    let [got, want] = [&gpu, &Engine::cpu()].map(|engine| {
                        let rows = filtered(engine, what, values, [3, vocab, stride], of);
                        rows.into_iter().map(f32::to_bits).collect::<Vec<_>>()
                    });
                    assert!(got == want, "{what:?} of {vocab} tokens, {of:?}");
                }
            }
        }
    }
}
