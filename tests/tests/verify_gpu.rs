//! Verification on a GPU gives the bits of the CPU, launched and replayed. Skipped without a GPU.
#![allow(clippy::print_stderr)]

use attn_tests::verify::{How, Verified, chains, trees};
use facade::Engine;

/// A GPU, or `None` with a message.
fn gpu() -> Option<Engine> {
    match Engine::cuda(0) {
        Ok(engine) => Some(engine),
        Err(error) => {
            eprintln!("SKIPPED: {error}");
            None
        }
    }
}

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
    // one CTA a request, though the vocabulary is large
    check_chains(140, &[9001]);
}

#[test]
fn chains_in_clusters_have_the_bits_of_the_cpu() {
    check_chains(2, &[8193, 9001, 32_001, 128_256]);
}

#[test]
fn small_trees_have_the_bits_of_the_cpu() {
    check_trees(5, &[1, 31, 111, 1027, 8192]);
    check_trees(140, &[8200]);
}

#[test]
fn trees_in_clusters_have_the_bits_of_the_cpu() {
    check_trees(2, &[8193, 9001, 32_001]);
}
