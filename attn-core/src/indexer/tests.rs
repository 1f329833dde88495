//! Indexers on the CPU: scores against their formula, and which keys are selected.

use half::bf16;

use super::*;
use crate::ops::{Array, ArrayMut, OpError, PageTableRows};
use crate::tensor::{TensorMut, TensorRef};

const DIM: usize = 32;
const HEADS: usize = 3;
/// Queries and keys of each request.
const LENS: [(usize, usize); 4] = [(1, 5), (3, 70), (0, 2), (2, 1)];
const PAGE: usize = 4;
/// Pages of each request, in a pool of 30 pages.
const PAGES: [usize; 4] = [2, 18, 1, 1];

fn values(count: usize, seed: u32) -> Vec<bf16> {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(12_345);
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        bf16::from_f32((state >> 8) as f32 / (1 << 23) as f32 - 1.0)
    };
    (0..count).map(|_| next()).collect()
}

fn sums(of: impl Iterator<Item = usize>) -> Vec<i32> {
    let sum = |sum: &mut i32, len: usize| {
        *sum += len as i32;
        Some(*sum)
    };
    std::iter::once(0).chain(of.scan(0, sum)).collect()
}

struct Batch {
    q: Vec<bf16>,
    /// Packed.
    keys: Vec<bf16>,
    weights: Vec<f32>,
    qo_indptr: Vec<i32>,
    kv_indptr: Vec<i32>,
}

/// Tokens: one more than there are queries.
const TOKENS: usize = 7;

fn batch() -> Batch {
    Batch {
        q: values(TOKENS * HEADS * DIM, 1),
        keys: values(78 * DIM, 2),
        weights: values(TOKENS * HEADS, 3).into_iter().map(bf16::to_f32).collect(),
        qo_indptr: sums(LENS.iter().map(|len| len.0)),
        kv_indptr: sums(LENS.iter().map(|len| len.1)),
    }
}

impl Batch {
    fn queries<'a>(&'a self, visible: Visible<'a>) -> IndexQueries<'a> {
        let q = TensorRef::host(&self.q, &[TOKENS, HEADS, DIM]).expect("as many");
        IndexQueries { q, qo_indptr: Array::host(&self.qo_indptr), visible }
    }
    fn ragged(&self) -> IndexKeys<'_> {
        let keys = TensorRef::host(&self.keys, &[78, DIM]).expect("as many");
        IndexKeys::Ragged { keys, kv_indptr: Array::host(&self.kv_indptr) }
    }
    fn weights(&self) -> TensorRef<'_> {
        TensorRef::host(&self.weights, &[TOKENS, HEADS]).expect("as many")
    }
    /// (token, request, keys that it sees, by causality).
    fn causal(&self) -> Vec<(usize, usize, usize)> {
        let of = |(request, &(queries, keys)): (usize, &(usize, usize))| {
            let first = self.qo_indptr[request] as usize;
            (0..queries).map(move |row| (first + row, request, (keys + row + 1).saturating_sub(queries)))
        };
        LENS.iter().enumerate().flat_map(of).collect()
    }
    fn product(&self, token: usize, head: usize, request: usize, key: usize) -> f64 {
        let q = &self.q[(token * HEADS + head) * DIM..][..DIM];
        let k = &self.keys[(self.kv_indptr[request] as usize + key) * DIM..][..DIM];
        q.iter().zip(k).map(|(a, b)| a.to_f64() * b.to_f64()).sum()
    }
}

fn near(got: f32, want: f64) -> bool {
    (f64::from(got) - want).abs() <= 1e-5 * (1.0 + want.abs())
}

#[test]
fn scores_of_keys_are_the_formula() {
    let batch = batch();
    let (mut scores, mut counts) = (vec![-7.0; TOKENS * 80], vec![9; TOKENS]);
    let mut out =
        ScoresMut::new(TensorMut::host(&mut scores, &[TOKENS, 80]).expect("as many"), ArrayMut::host(&mut counts));
    index_scores(&batch.queries(Visible::Causal), &batch.weights(), &batch.ragged(), &mut out).expect("sound");
    assert_eq!(counts, [5, 68, 69, 70, 0, 1, 0]);
    for (token, request, visible) in batch.causal() {
        for key in 0..80 {
            let got = scores[token * 80 + key];
            if key >= visible {
                assert_eq!(got, -7.0, "token {token}, key {key} is not written");
                continue;
            }
            let of = |head| batch.product(token, head, request, key).max(0.0);
            let want = (0..HEADS).map(|head| of(head) * f64::from(batch.weights[token * HEADS + head])).sum();
            assert!(near(got, want), "token {token}, key {key}: {got} is not {want}");
        }
    }
}

#[test]
fn scores_of_blocks_are_maxima_of_visible_keys() {
    let batch = batch();
    let (mut scores, mut counts) = (vec![-7.0; TOKENS * HEADS * 3], vec![9; TOKENS]);
    let shape = [TOKENS, HEADS, 3];
    let mut out = ScoresMut::new(TensorMut::host(&mut scores, &shape).expect("as many"), ArrayMut::host(&mut counts));
    block_scores(&batch.queries(Visible::Causal), &batch.ragged(), 32, &mut out).expect("sound");
    assert_eq!(counts, [1, 3, 3, 3, 0, 1, 0]);
    for (token, request, visible) in batch.causal() {
        for (head, block) in (0..HEADS).flat_map(|head| (0..3).map(move |block| (head, block))) {
            let got = scores[(token * HEADS + head) * 3 + block];
            let keys = block * 32..visible.min(block * 32 + 32);
            let products = keys.map(|key| batch.product(token, head, request, key));
            match products.reduce(f64::max) {
                Some(want) => assert!(near(got, want), "token {token}, head {head}, block {block}"),
                None => assert_eq!(got, -7.0),
            }
        }
    }
}

/// Keys in pages, NaN in every other slot, and counts that a caller gives.
#[test]
fn pages_and_given_counts() {
    let batch = batch();
    let mut pool = vec![bf16::NAN; 30 * PAGE * DIM];
    let indptr = sums(PAGES.into_iter());
    let pages: Vec<i32> = (0..22).map(|page| 29 - page).collect();
    for (request, (_, keys)) in LENS.iter().enumerate() {
        for key in 0..*keys {
            let page = pages[indptr[request] as usize + key / PAGE] as usize;
            let from = (batch.kv_indptr[request] as usize + key) * DIM;
            pool[(page * PAGE + key % PAGE) * DIM..][..DIM].copy_from_slice(&batch.keys[from..from + DIM]);
        }
    }
    let keys = IndexKeys::Paged {
        keys: TensorRef::host(&pool, &[30, PAGE, DIM]).expect("as many"),
        rows: PageTableRows::Csr { indptr: Array::host(&indptr), pages: Array::host(&pages) },
        kv_lens: Array::host(&[5, 70, 2, 1]),
    };
    let given = [3, -4, 90, 17, 0, 1, 50];
    let run = |keys: &IndexKeys<'_>| {
        let (mut scores, mut counts) = (vec![0.0; TOKENS * 70], vec![9; TOKENS]);
        let to = TensorMut::host(&mut scores, &[TOKENS, 70]).expect("as many");
        let mut out = ScoresMut::new(to, ArrayMut::host(&mut counts));
        let queries = batch.queries(Visible::Counts(Array::host(&given)));
        index_scores(&queries, &batch.weights(), keys, &mut out).expect("sound");
        (scores, counts)
    };
    let (paged, ragged) = (run(&keys), run(&batch.ragged()));
    assert_eq!(paged.1, [3, 0, 70, 17, 0, 1, 0]);
    assert!(paged == ragged && paged.0.iter().any(|score| *score != 0.0));
}

/// Lists against a definition: an entry is chosen if fewer than a list holds come before it.
#[test]
fn the_best_are_chosen_once_in_rising_order() {
    let nan = f32::NAN;
    let inf = f32::INFINITY;
    let rows: [&[f32]; 6] = [
        &[1.0, 5.0, 5.0, -2.0, 5.0, 3.0, 0.0, -0.0],
        &[-0.0, 0.0, -0.0, 0.0, 0.0],
        &[nan, -inf, 2.0],
        &[f32::MAX, inf, f32::MAX, inf, 7.0],
        &[],
        &[-inf; 8],
    ];
    let mut scores = vec![nan; rows.len() * 8];
    rows.iter().zip(scores.chunks_mut(8)).for_each(|(row, to)| to[..row.len()].copy_from_slice(row));
    let counts: Vec<i32> = rows.iter().map(|row| row.len() as i32).collect();
    let scores = TensorRef::host(&scores, &[6, 8]).expect("as many");
    let (mut lists, mut lens) = (vec![77; 18], vec![9; 6]);
    let mut out = TopKLists::new(ArrayMut::host(&mut lists), ArrayMut::host(&mut lens));
    select_tokens(&scores, &Array::host(&counts), &mut out).expect("sound");
    assert_eq!(lens, [3, 3, 1, 3, 0, 0]);
    let want = [[1, 2, 4], [0, 1, 2], [2, 0, 0], [0, 1, 2], [0, 0, 0], [0, 0, 0]];
    assert_eq!(lists, want.concat());
}

#[test]
fn first_and_last_blocks_are_always_chosen() {
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    // two heads of two tokens, of 6 and 2 blocks
    let scores = [nan, 1.0, 9.0, 9.0, 3.0, -inf, 4.0, 5.0, 1.0, 2.0, 7.0, 3.0, 1.0, nan, nan, nan, nan, nan];
    let scores = [&scores[..], &[2.0, -inf, nan, nan, nan, nan]].concat();
    let scores = TensorRef::host(&scores, &[2, 2, 6]).expect("as many");
    let choose = |first, last| {
        let (mut lists, mut lens) = (vec![77; 12], vec![9; 4]);
        let mut out = TopKLists::new(ArrayMut::host(&mut lists), ArrayMut::host(&mut lens));
        select_pages(&scores, &Array::host(&[6, 2]), first, last, &mut out).expect("sound");
        (lists, lens)
    };
    assert_eq!(choose(0, 1), ([[2, 3, 5], [1, 4, 5], [0, 1, 0], [0, 1, 0]].concat(), vec![3, 3, 2, 2]));
    assert_eq!(choose(2, 1).0, [[0, 1, 5], [0, 1, 5], [0, 1, 0], [0, 1, 0]].concat());
    assert_eq!(choose(0, 0), ([[2, 3, 4], [0, 1, 4], [0, 0, 0], [0, 0, 0]].concat(), vec![3, 3, 1, 1]));
}

#[test]
fn what_does_not_fit_says_what_would() {
    let batch = batch();
    let (mut scores, mut counts) = (vec![0.0; TOKENS * HEADS * 3], vec![9; TOKENS]);
    let mut blocks = |keys: &IndexKeys<'_>, size, shape: &[usize]| -> String {
        let count = shape.iter().product::<usize>();
        let to = TensorMut::host(&mut scores[..count], shape).expect("as many");
        let mut out = ScoresMut::new(to, ArrayMut::host(&mut counts));
        let error = block_scores(&batch.queries(Visible::All), keys, size, &mut out).expect_err("does not fit");
        assert!(counts.iter().all(|count| *count == 9), "nothing is written");
        error.to_string()
    };
    let ragged = batch.ragged();
    let text = blocks(&ragged, 48, &[TOKENS, HEADS, 3]);
    assert!(text.starts_with("`block_size` is 48; it must be a multiple of 32"), "{text}");
    let text = blocks(&ragged, 32, &[TOKENS, HEADS, 2]);
    assert_eq!(text, "`visible keys or blocks[1]` is 3; it must be 0 to 2");
    let text = blocks(&ragged, 32, &[TOKENS, HEADS]);
    assert!(text.contains("(qo tokens, index heads, blocks)"), "{text}");
    let wrong = IndexKeys::Ragged { keys: *ragged.keys(), kv_indptr: Array::host(&[0, 5, 75, 77, 79]) };
    assert_eq!(blocks(&wrong, 32, &[TOKENS, HEADS, 3]), "`kv_indptr[4]` is 79; it must be 77 to 78");

    let scores = TensorRef::host(&[0f32; 8], &[1, 1, 8]).expect("eight");
    let (mut lists, mut lens) = (vec![5; 3], vec![9; 1]);
    let mut out = TopKLists::new(ArrayMut::host(&mut lists), ArrayMut::host(&mut lens));
    let error = select_pages(&scores, &Array::host(&[8]), 2, 2, &mut out).expect_err("four of three");
    assert!(error.to_string().contains("at most what a list holds"), "{error}");
    let error = select_pages(&scores, &Array::host(&[9]), 0, 1, &mut out).expect_err("nine of eight");
    assert!(matches!(error, OpError::Entry { array: "counts", value: 9, most: 8, .. }), "{error}");
    assert_eq!((lists, lens), (vec![5; 3], vec![9]));
}

/// The kernels of a shape have 48 KiB of shared memory.
#[test]
fn shapes_that_no_kernel_holds_are_refused() {
    for (heads, dim) in [(1, 32), (64, 128), (128, 128), (88, 224), (96, 192)] {
        check_shape(heads, dim).unwrap_or_else(|error| panic!("{heads} of {dim}: {error}"));
    }
    for (heads, dim) in [(0, 32), (129, 32), (1, 48), (1, 288), (128, 160), (96, 224)] {
        check_shape(heads, dim).expect_err("no kernel");
    }
}
