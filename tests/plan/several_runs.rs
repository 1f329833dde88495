//! Attention that is several runs: differential attention, two sources of keys under one softmax, and the ranks of
//! decode context parallelism, each against one loop in f64.

use attn::Out;
use attn::ops::{StateRef, merge_state};
use attn::prelude::*;
use attn::stock::{Causal, Differential, InterleavedPositions, Sink, SlidingWindow, TokenList};
use attn_testing::Host;
use attn_tests::setup::{Tensors, Written};
use attn_tests::synthetic::values;

const DIM: usize = 8;
const SCALE: f64 = 0.353_553_390_593_273_8;

fn heads(qo: u32, kv: u32) -> Heads {
    Heads { qo, kv, head_dim: DIM as u32 }
}

/// Runs a variant over requests of these numbers of queries and keys.
fn run(variant: &Variant, heads: Heads, lens: &[(usize, usize)], [q, k, v]: [&[f32]; 3]) -> Written {
    let engine = Engine::cpu();
    let attention = engine.attention(variant, heads, Dtypes::f32()).expect("bound");
    let sums = |of: fn(&(usize, usize)) -> usize| -> Vec<i32> {
        let sum = |sum: &mut i32, len: &(usize, usize)| {
            *sum += of(len) as i32;
            Some(*sum)
        };
        std::iter::once(0).chain(lens.iter().scan(0, sum)).collect()
    };
    let (qo_indptr, kv_indptr) = (sums(|len| len.0), sums(|len| len.1));
    let plan = attention.plan(&Batch::ragged(&qo_indptr, &kv_indptr), &mut engine.workspace()).expect("sound");
    let slots = vec![k.len() / (heads.kv as usize * DIM)];
    Tensors { heads, q: q.to_vec(), k: Host::F32(k.to_vec()), v: Host::F32(v.to_vec()), slots }.run(&plan)
}

/// The softmax of the logits of a query and these keys, times their values; `sink` adds to the sum.
fn softmax<'a>(q: &[f32], keys: impl Iterator<Item = (&'a [f32], &'a [f32])>, sink: Option<f32>) -> Vec<f64> {
    let product = |k: &[f32]| q.iter().zip(k).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    let (mut o, mut sum) = (vec![0.0; DIM], sink.map_or(0.0, |sink| f64::from(sink).exp()));
    for (k, v) in keys {
        let weight = (product(k) * SCALE).exp();
        sum += weight;
        o.iter_mut().zip(v).for_each(|(o, v)| *o += weight * f64::from(*v));
    }
    o.iter_mut().for_each(|o| *o = if sum > 0.0 { *o / sum } else { 0.0 });
    o
}

fn agree(got: &[f32], want: &[f64]) {
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        assert!((f64::from(*got) - want).abs() < 1e-5 * (1.0 + want.abs()), "{i}: {got} is not {want}");
    }
}

fn row(rows: &[f32], heads: usize, token: usize, head: usize) -> &[f32] {
    &rows[(token * heads + head) * DIM..][..DIM]
}

/// (softmax(q1 k1) - lambda softmax(q2 k2)) v, and a norm of each head.
#[test]
fn differential_attention_is_two_runs() {
    let (lens, heads) = ([(5, 9), (1, 30)], heads(4, 2));
    let [q1, q2] = [1, 2].map(|seed| values(6 * 4 * DIM, seed));
    let [k1, k2, v] = [3, 4, 5].map(|seed| values(39 * 2 * DIM, seed));
    let first = run(&Causal.into(), heads, &lens, [&q1, &k1, &v]).o;
    let (lambda, scale, weight) = (0.7f32, 0.2f32, values(DIM, 6));
    let second = Differential {
        lambda,
        scale,
        eps: 1e-5,
        weight: weight.clone().into(),
        first: Tensor3::new(first, [6, 4, DIM]).expect("as many"),
    };
    let got = run(&compose!(Causal, second), heads, &lens, [&q2, &k2, &v]).o;

    let (mut want, mut tokens, mut keys) = (Vec::new(), 0, 0);
    for (queries, len) in lens {
        for query in 0..queries {
            for head in 0..4 {
                let of = |q: &[f32], k: &[f32]| {
                    let seen = keys..keys + len - queries + query + 1;
                    let pairs = seen.map(|key| (row(k, 2, key, head / 2), row(&v, 2, key, head / 2)));
                    softmax(row(q, 4, tokens + query, head), pairs, None)
                };
                let (a, b) = (of(&q1, &k1), of(&q2, &k2));
                let y: Vec<f64> = a.iter().zip(b).map(|(a, b)| a - f64::from(lambda) * b).collect();
                let root = (y.iter().map(|y| y * y).sum::<f64>() / DIM as f64 + 1e-5).sqrt();
                want.extend(y.iter().zip(&weight).map(|(y, w)| f64::from(scale) * y / root * f64::from(*w)));
            }
        }
        (tokens, keys) = (tokens + queries, keys + len);
    }
    agree(&got, &want);
}

/// Merges states over disjoint keys.
fn merged(a: &Written, b: &Written, tokens: usize, heads: usize) -> Written {
    let stream = Engine::cpu().stream().expect("none");
    let (shape, rows) = ([tokens, heads, DIM], [tokens, heads]);
    let [first, second] = [a, b].map(|of| StateRef {
        o: TensorRef::host(&of.o, &shape).expect("as many"),
        lse: TensorRef::host(&of.lse, &rows).expect("as many"),
    });
    let mut to = Written { o: vec![f32::NAN; a.o.len()], lse: vec![f32::NAN; a.lse.len()] };
    let [o, lse] = [(&mut to.o, &shape[..]), (&mut to.lse, &rows[..])]
        .map(|(x, shape)| TensorMut::host(x.as_mut_slice(), shape).expect("as many"));
    merge_state(&stream, &first, &second, Out::with_lse(o, lse)).expect("two states");
    to
}

/// DeepSeek-V4: the last keys of a sequence, and entries that each stand for `m` tokens, in one softmax with a sink.
/// Keys are values, of one head.
#[test]
fn window_and_compressed_keys_are_one_softmax() {
    const HEADS: usize = 3;
    const TOKENS: usize = 41;
    const WINDOW: usize = 6;
    const M: usize = 4;
    let heads = heads(HEADS as u32, 1);
    let queries = 23; // the last of the sequence
    let entries = TOKENS / M;
    let q = values(queries * HEADS * DIM, 1);
    let [keys, compressed] = [(TOKENS, 2), (entries, 3)].map(|(count, seed)| values(count * DIM, seed));
    let logits = [0.5f32, -1.0, 2.0];
    let position = |query: usize| TOKENS - queries + query;
    let of_query: Vec<i32> = (0..queries).map(|query| position(query) as i32).collect();

    let window = compose!(Causal, SlidingWindow { window: WINDOW as i32 }, Sink { logits: logits.into() });
    let window = run(&window, heads, &[(queries, TOKENS)], [&q, &keys, &keys]);
    // all entries whose tokens a query has seen (HCA), or those of them that an indexer chose (CSA)
    let stands = InterleavedPositions { ranks: M as i32, rank: M as i32 - 1, interleave: 1, of_query: of_query.into() };
    let all = compose!(remap(stands, Causal));
    let chosen = |query: usize| -> Vec<usize> {
        (0..(position(query) + 1) / M).filter(|entry| !(entry * 5 + query).is_multiple_of(3)).collect()
    };
    let mut tokens = vec![0; queries * entries];
    for query in 0..queries {
        chosen(query).iter().enumerate().for_each(|(n, entry)| tokens[query * entries + n] = *entry as i32);
    }
    let count: Vec<i32> = (0..queries).map(|query| chosen(query).len() as i32).collect();
    let tokens = Tensor2::new(tokens, [queries, entries]).expect("as many");
    let some = TokenList { max_tokens: entries as i32, tokens, count: count.into() }.into();
    for (variant, of_indexer) in [(all, false), (some, true)] {
        let variant: Variant = variant;
        let others = run(&variant, heads, &[(queries, entries)], [&q, &compressed, &compressed]);
        let got = merged(&window, &others, queries, HEADS);
        let mut want = Vec::new();
        for query in 0..queries {
            let at = position(query);
            let entries = if of_indexer { chosen(query) } else { (0..(at + 1) / M).collect() };
            for (head, sink) in logits.into_iter().enumerate() {
                let near = (at + 1).saturating_sub(WINDOW)..at + 1;
                let near = near.map(|key| row(&keys, 1, key, 0));
                let pairs = near.chain(entries.iter().map(|entry| row(&compressed, 1, *entry, 0))).map(|k| (k, k));
                want.extend(softmax(row(&q, HEADS, query, head), pairs, Some(sink)));
            }
        }
        agree(&got.o, &want);
    }
}

/// Each rank of decode context parallelism attends to its share of the keys; the merge is causal attention.
#[test]
fn interleaved_ranks_are_causal_attention() {
    let heads = heads(4, 2);
    // two tokens of a request of three keys: ranks have no key of it, or none that a query may see
    let lens = [(4, 37), (2, 3), (1, 16)];
    let (tokens, keys) = (7, 56);
    let q = values(tokens * 4 * DIM, 1);
    let [k, v] = [2, 3].map(|seed| values(keys * 2 * DIM, seed));
    let positions = lens.iter().flat_map(|(queries, len)| len - queries..*len).map(|at| at as i32);
    let of_query: Vec<i32> = positions.collect();
    for (ranks, interleave) in [(3, 1), (4, 4), (2, 16), (1, 1)] {
        let of_rank = |rank: usize| {
            let (mut share, mut first) = ([Vec::new(), Vec::new()], 0);
            let lens = lens.map(|(queries, len)| {
                let own = (0..len).filter(|key| key / interleave % ranks == rank);
                let count = own.clone().count();
                for (to, from) in share.iter_mut().zip([&k, &v]) {
                    own.clone().for_each(|key| to.extend_from_slice(&from[(first + key) * 2 * DIM..][..2 * DIM]));
                }
                first += len;
                (queries, count)
            });
            let [ranks, rank, interleave] = [ranks, rank, interleave].map(|n| n as i32);
            let map = InterleavedPositions { ranks, rank, interleave, of_query: of_query.clone().into() };
            run(&compose!(remap(map, Causal)), heads, &lens, [&q, &share[0], &share[1]])
        };
        let states = (0..ranks).map(of_rank);
        let got = states.reduce(|a, b| merged(&a, &b, tokens, 4)).expect("a rank");
        let (mut want, mut token, mut first) = (Vec::new(), 0, 0);
        for (queries, len) in lens {
            for query in 0..queries {
                for head in 0..4 {
                    let seen = first..first + len - queries + query + 1;
                    let pairs = seen.map(|key| (row(&k, 2, key, head / 2), row(&v, 2, key, head / 2)));
                    want.extend(softmax(row(&q, 4, token + query, head), pairs, None));
                }
            }
            (token, first) = (token + queries, first + len);
        }
        agree(&got.o, &want);
    }
}

// tile classes, weights, splits, padding and the f64 reference of the variants that these runs are made of
attn_testing::variant_test!(silu: Variant::from(attn::stock::Silu { n: 96 }));
