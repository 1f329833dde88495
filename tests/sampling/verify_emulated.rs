//! The kernels of verification, emulated on the host with threads in random order, give the bits of the CPU.

use attn::Engine;
use attn_tests::simt::HostVerifier;
use attn_tests::verify::{How, chains, trees};

/// Odd rows, rows of one segment and of many, and one of more than a tile a segment.
const VOCABS: [usize; 6] = [1, 31, 111, 512, 1027, 9001];

#[test]
fn chains_have_the_bits_of_the_cpu() {
    let folder = tempfile::tempdir().expect("a folder");
    let verifier = HostVerifier::compile(folder.path());
    let mut outcomes = [0; 3];
    for (seed, case) in VOCABS.into_iter().flat_map(|vocab| chains(5, vocab)).enumerate() {
        let want = case.run(&Engine::cpu(), How::Launched);
        let got = case.run_emulated(&verifier, seed as u32);
        assert_eq!(got.difference(&want), None, "{}", case.name);
        let drafts = want.ids.len() / want.emitted.len() - 1;
        for &emitted in &want.emitted {
            outcomes[if emitted == 0 { 0 } else { 1 + usize::from(emitted as usize == drafts) }] += 1;
        }
    }
    assert!(outcomes.iter().all(|&count| count > 20), "{outcomes:?} emit none, some and all");
}

#[test]
fn trees_have_the_bits_of_the_cpu() {
    let folder = tempfile::tempdir().expect("a folder");
    let verifier = HostVerifier::compile(folder.path());
    let mut depths = [0; 4];
    for (seed, case) in VOCABS.into_iter().flat_map(|vocab| trees(5, vocab)).enumerate() {
        let want = case.run(&Engine::cpu(), How::Launched);
        let got = case.run_emulated(&verifier, seed as u32);
        assert_eq!(got.difference(&want), None, "{}", case.name);
        want.accepted.iter().for_each(|&accepted| depths[(accepted as usize).min(3)] += 1);
    }
    assert!(depths.iter().all(|&count| count > 10), "{depths:?} accept 0, 1, 2 and more");
}
