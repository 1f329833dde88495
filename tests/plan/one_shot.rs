//! Attention in one call equals a plan, and refuses arrays that do not fit.

use attn::{Engine, Error, Heads, TensorError, Variant, bf16, prelude::*};
use attn_tests::synthetic::values;

const HEADS: Heads = Heads { qo: 4, kv: 2, head_dim: 16 };

fn rows(tokens: usize, heads: u32, seed: u32) -> Vec<f32> {
    values(tokens * (heads * HEADS.head_dim) as usize, seed)
}

#[test]
fn it_is_a_plan_of_one_request() {
    let engine = Engine::cpu();
    let (q, k, v) = (rows(5, HEADS.qo, 1), rows(9, HEADS.kv, 2), rows(9, HEADS.kv, 3));
    let variant = Variant::parse("causal + alibi + sink(logits=[1, 0, -1, 2])").expect("stock");
    let one = attend(&engine, &variant, HEADS, &q, &k, &v).expect("it runs");

    let attention = engine.attention(&variant, HEADS, Dtypes::f32()).expect("supported");
    let mut workspace = engine.workspace();
    let plan = attention.plan(&Batch::ragged(&[0, 5], &[0, 9]), &mut workspace).expect("valid");
    let [q, k, v] = [q, k, v].map(|rows| engine.upload(&rows).expect("memory"));
    let mut o = engine.alloc(Dtype::F32, q.elements()).expect("memory");
    let kv = Kv::ragged(k.tensor(&[9, 2, 16]).expect("fits"), v.tensor(&[9, 2, 16]).expect("fits"));
    let out = Out::new(o.tensor_mut(&[5, 4, 16]).expect("fits"));
    plan.run(&engine.stream().expect("one"), q.tensor(&[5, 4, 16]).expect("fits"), kv, out).expect("it runs");
    assert_eq!(one, engine.download::<f32>(&o).expect("floats"));
    assert!(one.iter().any(|&x| x != 0.0));
}

#[test]
fn arrays_that_do_not_fit_are_refused() {
    let (engine, variant) = (Engine::cpu(), Variant::full());
    let (q, kv) = (rows(2, HEADS.qo, 1), rows(3, HEADS.kv, 2));
    let run = |q: &[f32], k: &[f32], v: &[f32]| attend(&engine, &variant, HEADS, q, k, v);
    for result in [run(&q[1..], &kv, &kv), run(&q, &kv[1..], &kv), run(&q, &kv, &kv[32..]), run(&q, &kv[32..], &kv)] {
        assert!(matches!(result, Err(Error::Tensor(TensorError::Extent { .. }))), "{result:?}");
    }
    let bf16s = |x: &[f32]| x.iter().map(|&x| bf16::from_f32(x)).collect::<Vec<_>>();
    let (q, kv) = (bf16s(&q), bf16s(&kv));
    assert_eq!(attend(&engine, &variant, HEADS, &q, &kv, &kv).expect("16 bits too").len(), q.len());
    let none = Heads { kv: 0, ..HEADS };
    assert!(attend(&engine, &variant, none, &q, &kv, &kv).expect_err("no heads").to_string().contains("heads"));
    assert!(attend(&engine, &variant, HEADS, &[] as &[f32], &[], &[]).expect("no tokens").is_empty());
}
