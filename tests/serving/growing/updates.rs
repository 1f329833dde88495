//! Tensors with a row for each query token, replaced before each update of a plan with another batch.

use attn::{Error, Out, Stream, batch::indptr, expr::TensorContent, lang::Bits, prelude::*, stock::HeadGate};
use attn_tests::{gpu::engines, synthetic::values};

use super::support::{Captured, HEADS, ROW, assert_close, flat, halves};
use crate::captures;

/// Draft trees that change from step to step.
#[derive(Clone, Debug, VariantParams)]
struct Drafts {
    #[require(width >= 1)]
    width: i32,
    #[shape(qo_tokens, width)]
    #[mutable]
    ancestors: Tensor2<Bits>,
}

#[attention_variant(name = "drafts_that_change")]
impl AttentionVariant for Drafts {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        let node = at.kv_pos - (at.kv_len - at.qo_len);
        node < 0 || node < self.width && self.ancestors[[at.qo_token, node]]
    }
}

/// Batches of prefill and decode: queries and keys of each request.
const BATCHES: [(&[u32], &[u32]); 5] = [
    (&[3, 7], &[9, 20]),
    (&[1; 8], &[5, 60, 1, 33, 2, 8, 9, 70]),
    (&[16], &[90]),
    (&[2, 0, 4], &[2, 5, 64]),
    (&[9], &[9]),
];

/// Runs batches under one plan whose tensors change between runs, and captured where there is a GPU.
fn updates_equal_flat_plans(
    larger: &Variant,
    set: impl Fn(&Attention, &Stream, usize) -> Result<(), Error>,
    exact: impl Fn(usize, &[u32]) -> Variant,
) {
    let (all_q, all_k, all_v) = (halves(16 * ROW[0], 1), halves(256 * ROW[1], 2), halves(256 * ROW[1], 3));
    let _beside = captures::beside();
    for engine in engines() {
        let stream = engine.stream().expect("a stream");
        let attention = engine.attention(larger, HEADS, Dtypes::f16()).expect("bound");
        let capacity = BatchCapacity::new(8, 16, 256);
        let options = PlanOptions { capacity: Some(capacity), ..Default::default() };
        let (qo, kv) = (indptr(BATCHES[0].0).expect("short"), indptr(BATCHES[0].1).expect("short"));
        let mut workspace = engine.workspace();
        let mut plan = attention.plan_with(&Batch::ragged(&qo, &kv), &mut workspace, options).expect("room");
        let [q, k, v] = [&all_q, &all_k, &all_v].map(|data| engine.upload(data).expect("memory"));
        let mut o = engine.alloc(Dtype::F16, 16 * ROW[0]).expect("memory");
        let mut graph = Captured(None);
        for (step, (qo, kv)) in BATCHES.iter().chain(&BATCHES[..2]).enumerate() {
            let (qo_indptr, kv_indptr) = (indptr(qo).expect("short"), indptr(kv).expect("short"));
            let batch = Batch::ragged(&qo_indptr, &kv_indptr);
            set(&attention, &stream, step).expect("replaced");
            plan.update(&stream, &batch).expect("room");
            graph.step(&stream, || {
                let kv = Kv::ragged(k.tensor(&[256, 2, 64])?, v.tensor(&[256, 2, 64])?);
                plan.run(&stream, q.tensor(&[16, 4, 64])?, kv, Out::new(o.tensor_mut(&[16, 4, 64])?))
            });
            let [queries, keys] = [&qo_indptr, &kv_indptr].map(|ends| ends[ends.len() - 1] as usize);
            let alone = attention.with_parameters(&exact(step, qo)).expect("a layer");
            let kv = [&all_k[..keys * ROW[1]], &all_v[..keys * ROW[1]]];
            let want = flat(&engine, &alone, &all_q[..queries * ROW[0]], kv, &batch);
            let got = engine.download_f32(&o).expect("ran");
            assert_close(&engine, &format!("step {step}"), &got[..want.len()], &want, 2e-3);
        }
        let (qo, kv) = (indptr(&[1; 9]).expect("short"), indptr(&[3; 9]).expect("short"));
        plan.update(&stream, &Batch::ragged(&qo, &kv)).expect_err("past the capacity");
    }
}

#[test]
fn gates_of_query_tokens_follow_updates() {
    let gates = |step: usize| -> Vec<bf16> { values(16 * 4, step as u32).into_iter().map(bf16::from_f32).collect() };
    let table = |step, tokens: usize| Tensor2::new(gates(step)[..4 * tokens].to_vec(), [tokens, 4]).expect("gates");
    updates_equal_flat_plans(
        &HeadGate { gate: table(99, 16) }.into(),
        |attention, stream, step| attention.set_tensor(stream, "gate", &TensorContent::host(&gates(step))),
        |step, qo| HeadGate { gate: table(step, qo.iter().sum::<u32>() as usize) }.into(),
    );
}

#[test]
fn draft_trees_follow_updates() {
    // node `i` of a tree sees itself and the nodes that a random choice makes its ancestors
    let sees = |step: usize, tokens: usize| -> Tensor2<Bits> {
        let bits = values(16 * 16, 7 + step as u32).into_iter().enumerate();
        let bits: Vec<bool> = bits.map(|(i, x)| i / 16 == i % 16 || x > 0.3).take(16 * tokens).collect();
        Tensor2::from_values(bits, [tokens, 16]).expect("a tree")
    };
    updates_equal_flat_plans(
        &Drafts { width: 16, ancestors: sees(99, 16) }.into(),
        |attention, stream, step| {
            attention.set_tensor(stream, "ancestors", &TensorContent::host(sees(step, 16).as_slice()))
        },
        |step, qo| Drafts { width: 16, ancestors: sees(step, qo.iter().sum::<u32>() as usize) }.into(),
    );
}
