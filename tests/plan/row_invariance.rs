//! Under `fixed_split_size` the bits of a request that decodes do not change while a neighbour's prefill grows from 9
//! to 10 tokens (vllm-project/vllm#51902), and a query of a prompt has the same bits in any chunk: on the CPU, and in
//! kernels that run on the host.

use attn::{AttentionOptions, prelude::*};
use attn_core::spec::{DecodeBackend, PrefillBackend};
use attn_testing::{Case, KeptPages, LayoutKind, Lens, ListsOf};
use attn_tests::row_invariance::{Kernel, Neighbours, Request, rows, undisturbed};
use attn_tests::simt;

/// The heads of the report.
const HEADS: Heads = Heads { qo: 14, kv: 2, head_dim: 64 };

fn on_cpu(fixed_split_size: Option<u32>) -> Kernel {
    attn::registry::register(attn::stock::variants()).expect("no two share a name");
    let (engine, variant) = (Engine::cpu(), Variant::parse("causal").expect("stock"));
    let options = AttentionOptions { fixed_split_size, ..AttentionOptions::default() };
    let attention = engine.attention_with(&variant, HEADS, Dtypes::f16(), options).expect("bound");
    Kernel { engine, attention }
}

#[test]
fn a_row_has_its_bits_beside_1000_growing_neighbours_on_the_cpu() {
    let neighbours = Neighbours { keys: 2000, count: 1000 };
    assert_eq!(undisturbed(&on_cpu(Some(256)), neighbours), neighbours.count);
}

/// Splits at other keys give other bits, or the test above would prove nothing.
#[test]
fn bits_show_where_keys_are_split() {
    let of = |seed, count, heads| rows(seed, count, heads, HEADS.head_dim);
    let (q, k, v) = (of(1, 1, HEADS.qo), of(2, 2000, HEADS.kv), of(3, 2000, HEADS.kv));
    let bits = |split| on_cpu(Some(split)).run(&[Request { q: &q, k: &k, v: &v }]);
    assert!(bits(256) == bits(256) && bits(256) != bits(1024));
}

fn emulated(neighbours: u64) {
    attn::registry::register(attn::stock::variants()).expect("no two share a name");
    let case = |tokens: u32, seed: u64| {
        let context = (seed * 37 % 90) as u32;
        Case {
            kernel: "prefill".to_owned(),
            prefill: PrefillBackend::CudaCores,
            decode: Some(DecodeBackend::CudaCores),
            dtype: "f32".to_owned(),
            qo_heads: HEADS.qo,
            kv_heads: HEADS.kv,
            head_dim: HEADS.head_dim,
            qo_lens: Lens::List(vec![1, tokens]),
            kv_lens: Lens::List(vec![130, context + tokens]),
            fixed_split_size: Some(64),
            seed,
            ..Case::new("causal")
        }
    };
    // the elements of a seed do not depend on how many there are
    let bits = simt::bits((0..neighbours).flat_map(|seed| [case(9, seed), case(10, seed)]));
    let same = bits.chunks(2).filter(|pair| {
        let [nine, ten] = [&pair[0], &pair[1]].map(|(o, lse)| {
            assert!(lse.iter().all(|&bits| f32::from_bits(bits).is_finite()), "it ran");
            (&o[..(HEADS.qo * HEADS.head_dim) as usize], &lse[..HEADS.qo as usize])
        });
        nine == ten
    });
    assert_eq!(same.count() as u64, neighbours);
}

#[test]
fn a_row_has_its_bits_beside_a_growing_neighbour_in_an_emulated_kernel() {
    emulated(16);
}

#[test]
#[ignore = "minutes: `cargo xtask test --all`"]
fn a_row_has_its_bits_beside_1000_growing_neighbours_in_an_emulated_kernel() {
    emulated(1000);
}

/// Queries of a prompt, which are its last tokens, and its keys: 16 splits of 64 keys for some queries, 17 for others.
const PROMPT: [u32; 2] = [70, 1064];
/// The first queries of chunks that end with the prompt: within and after a Q tile, in company and alone.
const STARTS: [u32; 4] = [0, 3, 64, 69];
/// Queries of a chunk of which none has 17 splits, so that its tile has fewer partials than any other.
const SHORT: u32 = 20;

/// Asserts that a query has the same bits in every chunk, in a kernel of prefill. Masks hide keys at the front, so that
/// a tile begins where its first query sees a key: in another block for another chunk.
fn chunks(prefill: PrefillBackend, dtype: &str, masks: &[&str]) {
    attn::registry::register(attn::stock::variants()).expect("no two share a name");
    let cores = prefill == PrefillBackend::CudaCores;
    let case = |(number, mask): (usize, &&str)| Case {
        kernel: "prefill".to_owned(),
        prefill,
        decode: cores.then_some(DecodeBackend::CudaCores),
        dtype: dtype.to_owned(),
        qo_heads: 2,
        kv_heads: 1,
        kv_layout: [LayoutKind::Paged, LayoutKind::Ragged][number % 2],
        kv_lens: Lens::List(vec![1, PROMPT[1]]),
        fixed_split_size: Some(64),
        sparse: mask.contains("page_list").then_some(KeptPages { page: 16, keep: 0.6, heads: ListsOf::Shared }),
        seed: number as u64,
        ..Case::new(*mask)
    };
    for case in masks.iter().enumerate().map(case) {
        // the queries before a chunk are another request's, so that those of the chunk are the same elements
        let chunk = |first| Case { qo_lens: Lens::List(vec![first, PROMPT[0] - first]), ..case.clone() };
        let short = Case {
            qo_lens: Lens::List(vec![0, SHORT, PROMPT[0] - SHORT]),
            kv_lens: Lens::List(vec![1, PROMPT[1] - PROMPT[0] + SHORT, PROMPT[0]]),
            ..case.clone()
        };
        // pages and lists of keys are drawn for all requests together, and other masks see later keys
        let alike = case.kv_layout == LayoutKind::Ragged && case.sparse.is_none() && case.variant.contains("causal");
        let short = alike.then_some(short);
        let ends = STARTS.map(|first| (first, PROMPT[0])).into_iter().chain(short.is_some().then_some((0, SHORT)));
        let results = simt::bits(STARTS.map(chunk).into_iter().chain(short));
        let (heads, row) = (case.qo_heads as usize, (case.qo_heads * case.head_dim) as usize);
        let of = |result: &(Vec<u32>, Vec<u32>), token: usize| {
            let (o, lse) = (&result.0[token * row..][..row], &result.1[token * heads..][..heads]);
            assert!(lse.iter().all(|&bits| f32::from_bits(bits).is_finite()), "{}: it ran", case.title());
            (o.to_vec(), lse.to_vec())
        };
        for ((first, end), result) in ends.zip(&results) {
            let differs = |&token: &usize| of(result, token) != of(&results[0], token);
            let others: Vec<_> = (first as usize..end as usize).filter(differs).collect();
            assert!(others.is_empty(), "{prefill} {}: other bits of {others:?} from {first} to {end}", case.title());
        }
    }
}

const MASKS: [&str; 4] =
    ["causal", "sliding_window(window=700)", "streaming(sink=4, window=300)", "causal + chunked(chunk=1020)"];

#[test]
fn a_query_has_its_bits_in_any_chunk_by_mma_sync() {
    chunks(PrefillBackend::Sm80, "bf16", &MASKS);
    let union = "causal + union(sliding_window(window=200), not(sliding_window(window=200)) + soft_cap(cap=3))";
    chunks(PrefillBackend::Sm80, "f16", &[union, "causal + page_list(page_size=16, max_pages=67)"]);
}

#[test]
fn a_query_has_its_bits_in_any_chunk_by_wgmma() {
    chunks(PrefillBackend::Sm90, "bf16", &MASKS);
}

#[test]
fn a_query_has_its_bits_in_any_chunk_on_cuda_cores() {
    chunks(PrefillBackend::CudaCores, "f32", &MASKS);
}
