//! Under `fixed_split_size` a query has the same bits in any chunk and in any company, in every kernel that can run it
//! alone: prefill by wgmma, by mma.sync and on CUDA cores, decode on tensor cores and on CUDA cores. Skipped without a
//! GPU.
#![allow(clippy::print_stderr)]

use attn::{AttentionOptions, prelude::*};
use attn_core::spec::{DecodeBackend, KernelKind, PrefillBackend};
use attn_tests::gpu::gpu;
use attn_tests::row_invariance::{Kernel, Neighbours, Request, rows, undisturbed};

const HEADS: Heads = Heads { qo: 8, kv: 2, head_dim: 128 };
/// Keys of the text whose rows are compared: 24 splits, so that decode merges them in groups.
const KEYS: usize = 3000;
/// Keys of a split.
const SPLIT: u32 = 128;
/// The last tokens of the text, which have queries.
const QUERIES: usize = 150;

/// Queries of the chunks of a prompt, by turns.
const CHUNKS: [usize; 4] = [1, 64, 17, 128];

/// Checks one kernel: rows in chunks of `whole` queries against those in `chunks`, and beside others. Under a window a
/// tile begins within a split; under a mask with a hole its keys are at both ends.
fn check(options: AttentionOptions, whole: usize, chunks: &[usize]) {
    assert!(whole == 1 || chunks.iter().any(|chunk| *chunk < whole), "no chunk is smaller than the whole");
    let Some(engine) = gpu() else { return };
    attn::registry::register(attn::stock::variants()).expect("no two share a name");
    for variant in [
        "causal",
        "causal + soft_cap(cap=30.0)",
        "causal + sliding_window(window=700)",
        "causal + sliding_window(window=2600)",
        "streaming(sink=4, window=300)",
        "causal + chunked(chunk=2900)",
    ] {
        let what = format!("{variant}, {options:?}");
        let options = AttentionOptions { fixed_split_size: Some(SPLIT), ..options };
        let variant = Variant::parse(variant).expect("stock");
        let attention = engine.attention_with(&variant, HEADS, Dtypes::f16(), options).expect("bound");
        let kernel = Kernel { engine: engine.clone(), attention };
        let (q_width, kv_width) = ((HEADS.qo * HEADS.head_dim) as usize, (HEADS.kv * HEADS.head_dim) as usize);
        let of = |seed, count, heads| rows(seed, count, heads, HEADS.head_dim);
        let (q, k, v) = (of(1, QUERIES, HEADS.qo), of(2, KEYS, HEADS.kv), of(3, KEYS, HEADS.kv));
        // the queries from `first` on, and the keys that they see
        let part = |first: usize, len: usize| {
            let keys = ..(KEYS - QUERIES + first + len) * kv_width;
            Request { q: &q[first * q_width..(first + len) * q_width], k: &k[keys], v: &v[keys] }
        };
        let compare = |chunks: &[usize], others: usize| {
            let (mut first, mut bits) = (0, Vec::new());
            for (number, &chunk) in chunks.iter().cycle().enumerate() {
                let len = chunk.min(QUERIES - first);
                // others have as many queries and other keys, before and after
                let other = |i: usize| {
                    let keys = (len.max(i * 97 % 900)) * kv_width;
                    Request { q: &q[..len * q_width], k: &v[..keys], v: &k[..keys] }
                };
                let mut requests: Vec<_> = (0..others).map(|i| other(i + number)).collect();
                let at = number % (others + 1);
                requests.insert(at, part(first, len));
                bits.extend(kernel.run(&requests).swap_remove(at));
                first += len;
                if first == QUERIES {
                    break;
                }
            }
            bits
        };
        let want = compare(&[whole], 0);
        for others in [0, 1, 6] {
            let got = compare(chunks, others);
            let same = got.iter().zip(&want).filter(|(a, b)| a == b).count();
            assert_eq!(same, QUERIES, "rows with the same bits beside {others} others: {what}");
        }
        eprintln!("{QUERIES} rows have their bits: {what}");
    }
}

/// A request that decodes has its bits while a neighbour's prefill grows from 9 to 10 tokens: beside 1,000 neighbours,
/// and beside 20 with the keys of vllm-project/vllm#51902.
fn check_neighbours(options: AttentionOptions) {
    let Some(engine) = gpu() else { return };
    attn::registry::register(attn::stock::variants()).expect("no two share a name");
    let heads = Heads { qo: 14, kv: 2, head_dim: 64 };
    let options = AttentionOptions { fixed_split_size: Some(1024), ..options };
    let attention = engine.attention_with(&Variant::parse("causal").expect("stock"), heads, Dtypes::f16(), options);
    let kernel = Kernel { engine, attention: attention.expect("bound") };
    for neighbours in [Neighbours { keys: 3001, count: 1000 }, Neighbours { keys: 19_802, count: 20 }] {
        let same = undisturbed(&kernel, neighbours);
        assert_eq!(same, neighbours.count, "neighbours that change nothing, {neighbours:?}, {options:?}");
        eprintln!("a row has its bits beside {} neighbours: {options:?}", neighbours.count);
    }
}

#[test]
fn neighbours_of_prefill_by_wgmma() {
    check_neighbours(prefill(PrefillBackend::Sm90));
}

#[test]
fn neighbours_of_prefill_by_mma_sync() {
    check_neighbours(prefill(PrefillBackend::Sm80));
}

#[test]
fn neighbours_of_prefill_on_cuda_cores() {
    check_neighbours(prefill(PrefillBackend::CudaCores));
}

fn prefill(prefill: PrefillBackend) -> AttentionOptions {
    AttentionOptions { kernel: Some(KernelKind::Prefill), prefill, ..AttentionOptions::default() }
}

fn decode(decode: DecodeBackend) -> AttentionOptions {
    AttentionOptions { kernel: Some(KernelKind::Decode), decode: Some(decode), ..AttentionOptions::default() }
}

#[test]
fn prefill_by_wgmma() {
    check(prefill(PrefillBackend::Sm90), QUERIES, &CHUNKS);
}

#[test]
fn prefill_by_mma_sync() {
    check(prefill(PrefillBackend::Sm80), QUERIES, &CHUNKS);
}

#[test]
fn prefill_on_cuda_cores() {
    check(prefill(PrefillBackend::CudaCores), QUERIES, &CHUNKS);
}

#[test]
fn decode_on_tensor_cores() {
    check(decode(DecodeBackend::TensorCores), 1, &[1]);
}

#[test]
fn decode_on_cuda_cores() {
    check(decode(DecodeBackend::CudaCores), 1, &[1]);
}
