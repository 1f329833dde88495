//! Verification keeps the distribution of the model.

use super::{super::fixed_point::excess_mass, *};
use crate::ops::{Array, ArrayMut};
use crate::random;

const VOCAB: usize = 5;
const DRAFT: [[f32; VOCAB]; 2] = [[0.1, 0.4, 0.2, 0.2, 0.1], [0.5, 0.0, 0.25, 0.25, 0.0]];
const TARGET: [[f32; VOCAB]; 3] = [[0.3, 0.1, 0.1, 0.4, 0.1], [0.1, 0.3, 0.4, 0.1, 0.1], [0.0, 0.0, 0.5, 0.25, 0.25]];

/// Draws from a distribution by another seed.
fn drafted(seed: u64, row: usize) -> i32 {
    let random = random::bits64(seed ^ 0xabcd_0000, row as u64, 9);
    draw(random, VOCAB, |id| excess_mass(DRAFT[row][id], 0.0)).expect("mass") as i32
}

/// Ids, accepted and emitted drafts, and the position behind.
fn chain(seed: u64, ids: [i32; 2]) -> ([i32; 3], i32, i32, i64) {
    let (draft, target) = (DRAFT.concat(), TARGET.concat());
    let (mut out, mut accepted, mut emitted, mut positions) = ([7; 3], [7], [7], [40]);
    let drafts = ChainDrafts {
        draft_probs: TensorRef::host(&draft, &[1, 2, VOCAB]).expect("fits"),
        draft_ids: Array::host(&ids),
        target_probs: TensorRef::host(&target, &[1, 3, VOCAB]).expect("fits"),
        seeds: seed.into(),
    };
    let mut to = ChainOut {
        ids: ArrayMut::host(&mut out),
        accepted: ArrayMut::host(&mut accepted),
        emitted: ArrayMut::host(&mut emitted),
        positions: ArrayMut::host(&mut positions),
    };
    verify_chain(&drafts, &mut to).expect("sound");
    (out, accepted[0], emitted[0], positions[0])
}

/// Pearson's statistic of counts; with four degrees of freedom it exceeds 38 once in 10^7 samples.
fn statistic(counts: [u32; VOCAB], probs: [f32; VOCAB]) -> f64 {
    let total: u32 = counts.iter().sum();
    let of = |(&n, p): (&u32, f32)| {
        let expected = f64::from(p) * f64::from(total);
        assert!(expected > 0.0 || n == 0, "an impossible token");
        if expected > 0.0 { (f64::from(n) - expected).powi(2) / expected } else { 0.0 }
    };
    counts.iter().zip(probs).map(of).sum()
}

#[test]
fn emitted_tokens_have_the_distribution_of_the_model() {
    let mut counts = [[0; VOCAB]; 3];
    for seed in 0..30_000 {
        let ids = [drafted(seed, 0), drafted(seed, 1)];
        let (out, accepted, emitted, position) = chain(seed, ids);
        let emitted = emitted as usize;
        assert!(accepted as usize >= emitted && position == 41 + emitted as i64);
        assert_eq!(out[..emitted], ids[..emitted]);
        assert!(out[emitted] >= 0 && out[emitted + 1..].iter().all(|&id| id == -1));
        for (i, &id) in out[..=emitted].iter().enumerate() {
            counts[i][id as usize] += 1;
        }
    }
    for (counts, target) in counts.into_iter().zip(TARGET) {
        assert!(statistic(counts, target) < 38.0, "{counts:?}");
    }
}

#[test]
fn drafts_that_equal_the_model_are_all_emitted() {
    let target = TARGET.concat();
    let (mut out, mut accepted, mut emitted, mut positions) = ([7; 3], [7], [7], [0]);
    let mut to = ChainOut {
        ids: ArrayMut::host(&mut out),
        accepted: ArrayMut::host(&mut accepted),
        emitted: ArrayMut::host(&mut emitted),
        positions: ArrayMut::host(&mut positions),
    };
    let drafts = ChainDrafts {
        draft_probs: TensorRef::host(&target[..2 * VOCAB], &[1, 2, VOCAB]).expect("fits"),
        draft_ids: Array::host(&[3, 2]),
        target_probs: TensorRef::host(&target, &[1, 3, VOCAB]).expect("fits"),
        seeds: 5.into(),
    };
    verify_chain(&drafts, &mut to).expect("sound");
    let beyond = ChainDrafts { draft_ids: Array::host(&[3, 5]), ..drafts };
    let error = verify_chain(&beyond, &mut to).expect_err("no such token").to_string();
    assert!(error.contains("`draft_ids[1]` is 5; it must be -1 to 4"), "{error}");
    assert_eq!((out[0], out[1], accepted, emitted, positions), (3, 2, [2], [2], [3]));
}

/// A tree of node 0 with children 1 and 2; node 1 has child 3.
fn tree(seed: u64, tokens: [i32; 4]) -> ([i32; 4], [i32; 4], i32) {
    let target = [TARGET[0], TARGET[1], TARGET[2], TARGET[1]].concat();
    let (mut ids, mut accept_index, mut accepted, mut positions) = ([9; 4], [9; 4], [9], [0]);
    let drafts = TreeDrafts {
        draft_ids: Array::host(&tokens),
        retrieve_index: Array::host(&[0, 1, 2, 3]),
        retrieve_next_token: Array::host(&[1, 3, -1, -1]),
        retrieve_next_sibling: Array::host(&[-1, 2, -1, -1]),
        target_probs: TensorRef::host(&target, &[1, 4, VOCAB]).expect("fits"),
        threshold_single: 1.0,
        threshold_acc: 1.0,
        seeds: seed.into(),
    };
    let mut out = TreeOut {
        ids: ArrayMut::host(&mut ids),
        accept_index: ArrayMut::host(&mut accept_index),
        accepted: ArrayMut::host(&mut accepted),
        positions: ArrayMut::host(&mut positions),
    };
    verify_tree(&drafts, &mut out).expect("sound");
    assert_eq!(positions, [i64::from(accepted[0]) + 1]);
    (ids, accept_index, accepted[0])
}

#[test]
fn trees_keep_the_distribution_of_the_model() {
    let (mut first, mut second) = ([0; VOCAB], [0; VOCAB]);
    for seed in 0..30_000 {
        let (ids, accept_index, accepted) = tree(seed, [4, 3, 0, 2]);
        first[ids[0] as usize] += 1;
        match accepted {
            0 => assert_eq!(accept_index, [0, -1, -1, -1]),
            1 if ids[0] == 3 => assert_eq!(accept_index, [0, 1, -1, -1]),
            1 => assert_eq!((ids[0], accept_index), (0, [0, 2, -1, -1])),
            _ => assert_eq!((ids[0], ids[1], accept_index), (3, 2, [0, 1, 3, -1])),
        }
        if ids[0] == 3 {
            second[ids[1] as usize] += 1;
        }
    }
    assert!(statistic(first, TARGET[0]) < 38.0, "{first:?}");
    assert!(statistic(second, TARGET[1]) < 38.0, "{second:?}");
}
