//! Indexers and attention to what they choose, on the CPU, against loops in f64.

use attn::Engine;
use attn_core::dtype::Dtype;
use attn_tests::indexer::{IndexCase, Indexed, attend_to_chosen};
use half::bf16;

/// Products of a query with the keys that it sees, by heads, in f64.
fn products(case: &IndexCase, request: usize, token: usize, visible: usize) -> Vec<Vec<f64>> {
    let value = |bits: u16| bf16::from_bits(bits).to_f64();
    let key = |key: usize| &case.keys[(case.kv_indptr[request] as usize + key) * case.dim..][..case.dim];
    let of_head = |head: usize| {
        let q = &case.q[(token * case.heads + head) * case.dim..][..case.dim];
        let product = |k: usize| q.iter().zip(key(k)).map(|(a, b)| value(*a) * value(*b)).sum();
        (0..visible).map(product).collect()
    };
    (0..case.heads).map(of_head).collect()
}

/// Requests and visible keys of the queries.
fn queries(case: &IndexCase) -> Vec<(usize, usize, usize)> {
    let visible = case.visible();
    let of = |request: usize| case.qo_indptr[request] as usize..case.qo_indptr[request + 1] as usize;
    (0..case.lens.len())
        .flat_map(|request| of(request).map(move |token| (request, token)))
        .map(|(request, token)| (request, token, visible[token]))
        .collect()
}

fn near(got: &[f32], want: &[f64]) {
    assert_eq!(got.len(), want.len());
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        assert!((f64::from(*got) - want).abs() < 2e-3 * (1.0 + want.abs()), "{i}: {got} is not {want}");
    }
}

/// No score that is left out is above one that is chosen.
fn best(scores: &[f64], list: &[i32], wanted: usize) {
    assert_eq!(list.len(), wanted.min(scores.len()));
    assert!(list.windows(2).all(|pair| pair[0] < pair[1]), "{list:?}");
    let chosen = |at: usize| list.binary_search(&(at as i32)).is_ok();
    let least = (0..scores.len()).filter(|at| chosen(*at)).map(|at| scores[at]).fold(f64::INFINITY, f64::min);
    let most = (0..scores.len()).filter(|at| !chosen(*at)).map(|at| scores[at]).fold(f64::NEG_INFINITY, f64::max);
    assert!(most <= least + 1e-5, "{most} is left out, {least} is chosen");
}

fn list(chosen: &Indexed, capacity: usize, row: usize) -> &[i32] {
    let len = chosen.lens[row] as usize;
    assert!(chosen.lists[row * capacity + len..(row + 1) * capacity].iter().all(|entry| *entry == 0));
    &chosen.lists[row * capacity..][..len]
}

/// The lightning indexer of DeepSeek-V3.2, then `token_list`.
#[test]
fn tokens_of_an_indexer_feed_attention() {
    let case = IndexCase::new(Dtype::Bf16, 64, 128, 0, 0, false);
    let capacity = 100;
    let chosen = case.run(&Engine::cpu(), 1000, capacity, [0, 0], false);
    for (request, token, visible) in queries(&case) {
        let products = products(&case, request, token, visible);
        let weight = |head: usize| f64::from(case.weights[token * case.heads + head]);
        let score = |key: usize| (0..case.heads).map(|head| weight(head) * products[head][key].max(0.0)).sum();
        let scores: Vec<f64> = (0..visible).map(score).collect();
        best(&scores, list(&chosen, capacity, token), capacity);
    }
    let (got, want) = attend_to_chosen(&Engine::cpu(), &case, &chosen);
    near(&got, &want);
}

/// The block selection of MiniMax-M3, its newest block always, then `page_list`.
#[test]
fn pages_of_an_indexer_feed_attention() {
    let case = IndexCase::new(Dtype::Bf16, 2, 128, 128, 0, false);
    let capacity = 3;
    let chosen = case.run(&Engine::cpu(), 8, capacity, [0, 1], false);
    for (request, token, visible) in queries(&case) {
        let blocks = visible.div_ceil(128);
        for (head, products) in products(&case, request, token, visible).iter().enumerate() {
            let maximum = |block: &[f64]| block.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let mut scores: Vec<f64> = products.chunks(128).map(maximum).collect();
            scores.iter_mut().skip(blocks.saturating_sub(1)).for_each(|score| *score = f64::INFINITY);
            best(&scores, list(&chosen, capacity, token * case.heads + head), capacity);
        }
    }
    let (got, want) = attend_to_chosen(&Engine::cpu(), &case, &chosen);
    near(&got, &want);
}
