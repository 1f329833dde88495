//! Under `fixed_split_size` the bits of a request that decodes do not change while a neighbour's prefill grows from 9
//! to 10 tokens (vllm-project/vllm#51902): on the CPU, and in kernels on CUDA cores that run on the host.

extern crate facade as attn;

use attn::{
    AttentionOptions,
    prelude::*,
    spec::{DecodeBackend, PrefillBackend},
};
use attn_testing::{Case, Lens};
use attn_tests::{
    row_invariance::{Kernel, Neighbours, Request, rows, undisturbed},
    simt,
};

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
