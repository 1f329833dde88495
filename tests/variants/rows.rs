//! Tests of the rows that are no masks, beyond their entries: formulas differ from plain attention, and output tensors
//! hold the stored logits.

use std::collections::BTreeSet;

use attn_core::Variant;
use attn_core::lang::{OutTensor1, OutTensor3, QueryTile, Tensor1, Tile, TileClass};
use attn_testing::{Case, Inputs, properties};
use attn_tests::catalogue::cpu_cases;
use attn_tests::catalogue::masks::AdaptiveSpan;
use attn_tests::catalogue::rows;
use attn_tests::catalogue::run::{run, tensors};
use attn_tests::reference::{At, Formula, Shape, attend};
use attn_variants::{Causal, LogitsDump, MaxLogit};

/// Rows whose output and LSE equal causal attention.
const AS_CAUSAL: [u32; 2] = [42, 72];

fn causal(at: &At) -> bool {
    at.j <= at.i
}

#[test]
fn every_row_has_an_entry() {
    let there: BTreeSet<u32> = rows::entries().iter().map(|entry| entry.row).collect();
    let want = [18, 29, 30, 31, 32, 35].into_iter().chain(37..=47).chain(54..=58).chain(61..=69).chain(72..=74);
    // the other rows are masks, parts of the kernels, or not in the catalogue
    let missing: Vec<u32> = want.filter(|row| !there.contains(row)).collect();
    assert!(missing.is_empty(), "no entry for rows {missing:?}");
}

/// An incomplete formula could agree with a variant that does nothing.
#[test]
fn no_formula_equals_plain_attention() {
    let scale = |case: &Case| f64::from(case.heads().default_sm_scale());
    for entry in rows::entries().into_iter().filter(|entry| !AS_CAUSAL.contains(&entry.row)) {
        let differs = |plain: fn() -> Formula| {
            (entry.cases)().iter().any(|case| {
                let shape = Shape::of(case);
                let tensors = tensors(&shape, &Inputs::new(case, false).expect("a case of ours"));
                let all = |formula: &Formula| {
                    let attended = attend(formula, &shape, &tensors, scale(case));
                    [attended.o, attended.lse].concat()
                };
                let (got, plain) = (all(&(entry.make)(&shape).formula), all(&plain()));
                got.iter().zip(&plain).any(|(a, b)| (a - b).abs() > 1e-2)
            })
        };
        assert!(differs(Formula::plain) && differs(|| Formula::masked(causal)), "row {} {}", entry.row, entry.name);
    }
}

/// The inputs of a case and its causal logits as (token, head, key, logit).
fn causal_logits(case: &Case) -> (Inputs, Vec<(i64, i64, i64, f64)>) {
    let inputs = Inputs::new(case, false).expect("a case of ours");
    let shape = Shape::of(case);
    let all = tensors(&shape, &inputs);
    let (dim, group) = (shape.head_dim as usize, shape.qo_heads / shape.kv_heads);
    let row = |x: &[f64], at: i64| x[at as usize * dim..][..dim].to_vec();
    let mut logits = Vec::new();
    let (mut query, mut key) = (0, 0);
    for &(qo_len, kv_len) in &shape.lens {
        for (i, h) in (0..qo_len).flat_map(|i| (0..shape.qo_heads).map(move |h| (i, h))) {
            let q = row(&all.q, (query + i) * shape.qo_heads + h);
            for j in 0..=(i + kv_len - qo_len) {
                let k = row(&all.k, (key + j) * shape.kv_heads + h / group);
                let product: f64 = q.iter().zip(k).map(|(a, b)| a * b).sum();
                logits.push((query + i, h, j, product * f64::from(case.heads().default_sm_scale())));
            }
        }
        (query, key) = (query + qo_len, key + kv_len);
    }
    (inputs, logits)
}

#[test]
fn logits_dump_stores_each_logit_at_its_coordinates() {
    for case in cpu_cases::small() {
        let shape = Shape::of(&case);
        let columns = shape.lens.iter().map(|(_, kv)| *kv).max().expect("requests");
        let extents = [shape.qo_tokens(), shape.qo_heads, columns].map(|n| n as usize);
        let dump = LogitsDump { columns: columns as i32, logits: OutTensor3::filled(-1e9, extents).expect("it fits") };
        let (inputs, logits) = causal_logits(&case);
        run(&attn_core::compose!(Causal, dump.clone()), &case, &inputs).expect("it runs");
        let written = dump.logits.to_vec();
        for (token, head, key, logit) in logits {
            let got = f64::from(written[((token * shape.qo_heads + head) * columns + key) as usize]);
            assert!((got - logit).abs() < 1e-5, "{:?}: {got} is not {logit}", shape.lens);
        }
    }
}

#[test]
fn max_logit_stores_the_largest_logit_of_each_head() {
    for case in cpu_cases::small() {
        let heads = case.qo_heads as usize;
        let max = MaxLogit { max: OutTensor1::filled(f32::NEG_INFINITY, [heads]).expect("it fits") };
        let (inputs, logits) = causal_logits(&case);
        run(&attn_core::compose!(Causal, max.clone()), &case, &inputs).expect("it runs");
        for (head, got) in (0..).zip(max.max.to_vec()) {
            let of_head = logits.iter().filter(|logit| logit.1 == head).map(|logit| logit.3);
            let want = of_head.fold(f64::NEG_INFINITY, f64::max);
            assert!((f64::from(got) - want).abs() < 1e-5, "{got} is not {want}");
        }
    }
}

/// No tile classes are derived from a mask over floats, so `kv_range` skips tiles.
#[test]
fn adaptive_spans_bound_the_kv_range() {
    let span = Tensor1::from([30.5f32, 0.0, 7.25, 0.5, 2.0, 64.0, 3.0, 1.0]);
    let variant: Variant = AdaptiveSpan { ramp: 4.0, span }.into();
    for property in [properties::keys, properties::tiles, properties::splits] {
        property(&variant).expect("the property holds");
    }
    let class = |first_head: i32, kv_pos_max: i32| {
        let rows = QueryTile {
            qo_pos_min: 100,
            qo_pos_max: 110,
            qo_head_min: first_head,
            qo_head_max: first_head + 1,
            qo_len: 200,
            kv_len: 200,
            ..QueryTile::default()
        };
        variant.tile_class(Tile { rows, kv_pos_min: 0, kv_pos_max, ..Tile::default() })
    };
    // 100 - 34.5, 100 - 11.25
    for (head, begins) in [(0, 66), (2, 89)] {
        assert_eq!([class(head, begins - 1), class(head, begins)], [TileClass::Skip, TileClass::Partial], "{head}");
    }
}
