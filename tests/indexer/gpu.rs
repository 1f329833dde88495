//! Indexers on a GPU, launched and captured: scores are those of the CPU within a tolerance, and choices are those of
//! the CPU over the same scores, to the bit. Skipped without a GPU.
#![allow(clippy::print_stderr)]

use attn::Engine;
use attn_core::dtype::Dtype;
use attn_core::indexer::{TopKLists, select_pages};
use attn_core::ops::{Array, ArrayMut};
use attn_core::tensor::TensorRef;
use attn_tests::gpu::gpu;
use attn_tests::indexer::{IndexCase, Indexed, attend_to_chosen};

/// What the CPU chooses of scores.
fn chosen(of: &Indexed, heads: usize, columns: usize, capacity: usize, [first, last]: [usize; 2]) -> Indexed {
    let tokens = of.counts.len();
    let (mut lists, mut lens) = (vec![77; tokens * heads * capacity], vec![77; tokens * heads]);
    let scores = TensorRef::host(&of.scores, &[tokens, heads, columns]).expect("as many");
    let mut out = TopKLists::new(ArrayMut::host(&mut lists), ArrayMut::host(&mut lens));
    select_pages(&scores, &Array::host(&of.counts), first, last, &mut out).expect("sound");
    Indexed { lists, lens, ..of.clone() }
}

fn check(name: &str, gpu: &Engine, case: &IndexCase, columns: usize, capacity: usize, always: [usize; 2]) -> Indexed {
    let heads = if case.block_size > 0 { case.heads } else { 1 };
    let want = case.run(&Engine::cpu(), columns, capacity, always, false);
    let [launched, captured] = [false, true].map(|captured| case.run(gpu, columns, capacity, always, captured));
    assert!(launched == captured, "{name}: a replayed graph differs");
    assert_eq!(launched.counts, want.counts, "{name}");
    for (i, (got, want)) in launched.scores.iter().zip(&want.scores).enumerate() {
        assert!((got - want).abs() <= 1e-4 * (1.0 + want.abs()), "{name}, {i}: {got} is not {want}");
    }
    assert!(launched == chosen(&launched, heads, columns, capacity, always), "{name}: another choice");
    launched
}

#[test]
fn scores_and_choices() {
    let Some(gpu) = gpu() else { return };
    for of in [Dtype::Bf16, Dtype::F16] {
        for (heads, dim) in [(64, 128), (13, 32), (1, 96), (64, 256), (128, 128)] {
            for block_size in [0, 32, 128] {
                for page_size in [0, 3, 64] {
                    for given in [false, true] {
                        let case = IndexCase::new(of, heads, dim, block_size, page_size, given);
                        let name = format!("{of}, {heads} of {dim}, {block_size}, {page_size}, {given}");
                        match block_size {
                            0 => check(&name, &gpu, &case, 1001, 100, [0, 0]),
                            size => check(&name, &gpu, &case, 1000usize.div_ceil(size), 3, [1, 1]),
                        };
                    }
                }
            }
        }
    }
}

/// Long rows, which the CTAs of a cluster share, and many rows; 2048 keys of each, as in DeepSeek-V3.2.
#[test]
fn long_rows_and_many_rows() {
    let Some(gpu) = gpu() else { return };
    for (name, lens) in [
        ("one of 65,536 keys", vec![(1, 65_536)]),
        ("64 of about 4096 keys", (0..64).map(|request| (1, 4000 + request * 3)).collect()),
        ("a chunk of 40 queries over 5000 keys", vec![(40, 5000)]),
        ("three of 30,001 keys, of two queries", vec![(2, 30_001); 3]),
    ] {
        let columns = lens.iter().map(|len: &(usize, usize)| len.1).max().unwrap_or(0);
        let case = IndexCase::of(lens, Dtype::Bf16, 64, 128, 0, 64);
        check(name, &gpu, &case, columns, 2048, [0, 0]);
        eprintln!("{name}: equal");
    }
}

#[test]
fn attention_reads_what_is_chosen() {
    let Some(gpu) = gpu() else { return };
    for (block_size, heads, columns, capacity) in [(0, 64, 1000, 100), (128, 2, 8, 3)] {
        let case = IndexCase::new(Dtype::Bf16, heads, 128, block_size, 64, false);
        let chosen = check("of attention", &gpu, &case, columns, capacity, [0, usize::from(block_size > 0)]);
        let (got, want) = attend_to_chosen(&gpu, &case, &chosen);
        for (i, (got, want)) in got.iter().zip(&want).enumerate() {
            let near = (f64::from(*got) - want).abs() < 2e-3 * (1.0 + want.abs());
            assert!(near, "blocks of {block_size}, {i}: {got} is not {want}");
        }
    }
}
