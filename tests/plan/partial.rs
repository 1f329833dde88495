//! Partial attention over two halves of the keys, merged, against one run over all keys.

use attn::lang::{Hook, Normalizer};
use attn::prelude::*;
use attn::state::{finalize, merge_state};
use attn::{Error, Out};
use attn_core::tensor::TensorError;
use attn_testing::Host;
use attn_tests::setup::{Tensors, Written, cpu_attention};
use attn_tests::synthetic::values;

pub(super) const HEADS: Heads = Heads { qo: 4, kv: 2, head_dim: 8 };
/// Elements of a key or value over all KV heads.
pub(super) const ROW: usize = 2 * 8;
pub(super) const QO: [i32; 3] = [0, 3, 8];
/// Keys of each request in total, and in the first half.
pub(super) const KEYS: [usize; 2] = [70, 9];
const FIRST: [usize; 2] = [33, 0];

pub(super) fn run(attention: &Attention, kv_indptr: &[i32], k: &[f32], v: &[f32], partial: bool) -> Written {
    let plan = attention.plan(&Batch::ragged(&QO, kv_indptr), &mut Engine::cpu().workspace()).expect("sound");
    let [k, v] = [k, v].map(|rows| Host::F32(rows.to_vec()));
    let tensors = Tensors { slots: vec![k.len() / ROW], k, v, ..Tensors::new(HEADS, 8, &[0]) };
    let options = RunOptions { partial, ..Default::default() };
    tensors.run_with(&plan, KvScales::default(), options).expect("runs")
}

/// The keys of each request in a half, packed, and their prefix sums.
fn half(rows: &[f32], of: impl Fn(usize) -> std::ops::Range<usize>) -> (Vec<i32>, Vec<f32>) {
    let (mut indptr, mut half) = (vec![0], Vec::new());
    for request in 0..2 {
        let keys = of(request);
        half.extend_from_slice(&rows[keys.start * ROW..keys.end * ROW]);
        indptr.push((half.len() / ROW) as i32);
    }
    (indptr, half)
}

pub(super) fn attention(variant: &str) -> Attention {
    cpu_attention(variant, HEADS, AttentionOptions::default())
}

#[test]
fn two_partial_halves_merge_to_the_whole() {
    let (k, v) = (values(79 * ROW, 2), values(79 * ROW, 3));
    let starts = [0, KEYS[0]];
    // none of these variants reads the position of a key, which differs between the halves
    for variant in [
        "full",
        "sink(logits=[0.5, -1, 2, 30])",
        "soft_cap(cap=3) + sink(logits=[0.5, -1, 2, 30]) + output_norm",
        "output_norm",
        "softpick",
        "softmax_n(n=2)",
        "sigmoid",
    ] {
        let attention = attention(variant);
        let plain = attention.variant().normalizer();
        let (indptr, all) = half(&k, |r| starts[r]..starts[r] + KEYS[r]);
        let whole = run(&attention, &indptr, &all, &v, false);
        let part = |first: bool| {
            let of = |r: usize| match first {
                true => starts[r]..starts[r] + FIRST[r],
                false => starts[r] + FIRST[r]..starts[r] + KEYS[r],
            };
            let ((indptr, k), (_, v)) = (half(&k, of), half(&v, of));
            run(&attention, &indptr, &k, &v, true)
        };
        let (Written { mut o, mut lse }, other) = (part(true), part(false));
        let layout = Batch::ragged(&QO, &indptr).validate().expect("sound");
        let rows = (0..2).flat_map(|request| (0..layout.qo_len(request)).map(move |query| (request, query)));
        let rows = rows.flat_map(|(request, query)| (0..4).map(move |head| (request, query, head)));
        for (i, (request, query, head)) in rows.enumerate() {
            let (o, other_o) = (&mut o[i * 8..][..8], &other.o[i * 8..][..8]);
            if plain == (Normalizer::Plain { divide: false }) {
                o.iter_mut().zip(other_o).for_each(|(x, y)| *x += y);
            } else {
                lse[i] = merge_state(o, lse[i], other_o, other.lse[i]);
                lse[i] = finalize(attention.variant(), o, lse[i], layout.row(HEADS, request, query, head));
                assert!(
                    (lse[i] - whole.lse[i]).abs() < 1e-4,
                    "{variant}, row {i}: lse {} and {}",
                    lse[i],
                    whole.lse[i]
                );
            }
            for (x, y) in o.iter().zip(&whole.o[i * 8..]) {
                assert!((x - y).abs() < 1e-4 * (1.0 + y.abs()), "{variant}, row {i}: {x} and {y}");
            }
        }
        // a partial run over all keys differs where sink or output transform apply
        let finished = run(&attention, &indptr, &all, &v, true);
        let has = |hook| attention.variant().has(hook);
        let changes = has(Hook::SinkLogit) || has(Hook::OutputTransform);
        assert_eq!(finished.o != whole.o, changes, "{variant}");
    }
}

#[test]
fn one_half_may_include_the_sink() {
    let (k, v) = (values(79 * ROW, 2), values(79 * ROW, 3));
    let attention = attention("sink(logits=[0.5, -1, 2, 30])");
    let whole = run(&attention, &[0, 70, 79], &k, &v, false);
    let keys = |request: usize| [0..70, 70..79][request].clone();
    let first = |r| keys(r).start..keys(r).start + FIRST[r];
    let second = |r| keys(r).start + FIRST[r]..keys(r).end;
    let ((indptr, k1), (_, v1)) = (half(&k, first), half(&v, first));
    let Written { mut o, mut lse } = run(&attention, &indptr, &k1, &v1, true);
    let ((indptr, k2), (_, v2)) = (half(&k, second), half(&v, second));
    let other = run(&attention, &indptr, &k2, &v2, false);
    for (i, row) in o.chunks_exact_mut(8).enumerate() {
        lse[i] = merge_state(row, lse[i], &other.o[i * 8..][..8], other.lse[i]);
        assert!((lse[i] - whole.lse[i]).abs() < 1e-4);
        assert!(row.iter().zip(&whole.o[i * 8..]).all(|(x, y)| (x - y).abs() < 1e-4));
    }
}

#[test]
fn a_partial_run_needs_lse() {
    let (engine, attention) = (Engine::cpu(), attention("full"));
    let plan = attention.plan(&Batch::ragged(&[0, 1], &[0, 1]), &mut engine.workspace()).expect("sound");
    let (q, kv, mut o) = (values(32, 1), values(ROW, 2), vec![0.5f32; 32]);
    let kv = || TensorRef::host(&kv, &[1, 2, 8]).expect("fits");
    let q = TensorRef::host(&q, &[1, 4, 8]).expect("fits");
    let out = Out::new(TensorMut::host(&mut o, &[1, 4, 8]).expect("fits"));
    let stream = engine.stream().expect("a token");
    let options = RunOptions { partial: true, ..Default::default() };
    let error = plan.run_with(&stream, q, Kv::ragged(kv(), kv()), out, options).expect_err("no lse");
    let absent = |e: &Error| match e {
        Error::Tensor(e) | Error::Cpu(attn_core::cpu::CpuError::Tensor(e)) => {
            matches!(e, TensorError::Absent { tensor: "lse", .. })
        }
        _ => false,
    };
    assert!(absent(&error) && o.iter().all(|&x| x == 0.5), "{error}");
}
