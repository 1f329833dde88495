//! Sampling on the CPU against a naive reference in f64: what filters keep, the distribution of draws, and that a row
//! depends on nothing but itself.

use attn::Engine;
use attn::sampling::{FilterOrder, LogProbs};
use attn_core::dtype::Dtype;
use attn_tests::filters::{Filtering, Filters, filtered};
use attn_tests::sampling::{SamplingCase, chi_squared, grid, normals};
use proptest::prelude::*;

/// The probabilities of a row by a softmax and a sort in f64, and whether the filters decide clearly: no token is
/// within rounding of a threshold.
fn naive(logits: &[f32], temperature: f64, k: usize, p: f64, min_p: f64, order: FilterOrder) -> (Vec<f64>, bool) {
    let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let weights: Vec<f64> = logits.iter().map(|&x| (f64::from(x - most) / temperature).exp()).collect();
    let mut tokens: Vec<usize> = (0..logits.len()).collect();
    tokens.sort_by(|&a, &b| logits[b].partial_cmp(&logits[a]).expect("numbers").then(a.cmp(&b)));
    let sum = |tokens: &[usize]| tokens.iter().map(|&id| weights[id]).sum::<f64>();
    let whole = sum(&tokens);
    let mut clear = true;
    let mut keep = tokens.len().min(k);
    if p < 1.0 {
        let of = if order == FilterOrder::Joint { whole } else { sum(&tokens[..keep]) };
        let mut before = 0.0;
        let mut count = 0;
        for &id in &tokens[..keep] {
            clear &= ((before - p * of) / whole).abs() > 1e-6;
            if count > 0 && before >= p * of {
                break;
            }
            before += weights[id];
            count += 1;
        }
        keep = count;
    }
    if min_p > 0.0 {
        clear &= tokens.iter().all(|&id| (weights[id] / min_p).ln().abs() > 1e-5);
        keep = tokens[..keep].iter().take_while(|&&id| weights[id] >= min_p).count();
    }
    let kept = sum(&tokens[..keep]);
    let mut probs = vec![0.0; logits.len()];
    tokens[..keep].iter().for_each(|&id| probs[id] = weights[id] / kept);
    (probs, clear)
}

fn probs_of(case: &SamplingCase) -> Vec<f64> {
    let drawn = case.run(&Engine::cpu(), false, 1, |_| {});
    drawn.probs.iter().map(|&x| f64::from(f32::from_bits(x))).collect()
}

/// Compares a row with the reference. `false` if rounding decides what is kept.
fn keeps_what_the_reference_keeps(values: &[f32], filters: Filters) -> Result<bool, TestCaseError> {
    let Filters { temperature, top_k: k, top_p: p, min_p, order } = filters;
    let case = SamplingCase {
        values: values.to_vec(),
        temperature: vec![temperature],
        top_k: vec![k],
        top_p: vec![p],
        min_p: vec![min_p],
        order,
        ..SamplingCase::new("random", Dtype::F32, 1, values.len())
    };
    let (want, clear) = naive(values, f64::from(temperature), k as usize, f64::from(p), f64::from(min_p), order);
    if clear {
        for (got, want) in probs_of(&case).into_iter().zip(want) {
            // below 2^-36 of the likeliest there is no mass
            prop_assert!(if got > 0.0 { want > 0.0 } else { want < 2e-11 }, "{} {}", got, want);
            prop_assert!((got - want).abs() <= 2e-6 * want + 1e-10, "{} {}", got, want);
        }
    }
    Ok(clear)
}

/// A case that failed once: thirty tokens kept by top-k alone, at a low temperature.
#[test]
fn a_sharp_row_keeps_its_thirty_tokens() {
    let values = normals(112, 3_448_375_949, 5.513_094);
    let order = FilterOrder::TopKFirst;
    let filters = Filters { temperature: 0.375_433_98, top_k: 30, top_p: 1.152_188_8, min_p: 0.0, order };
    assert!(keeps_what_the_reference_keeps(&values, filters).expect("what the reference keeps"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn filters_keep_what_the_reference_keeps(
        vocab in 1usize..300,
        seed: u32,
        deviation in 0.1f32..6.0,
        temperature in 0.2f32..3.0,
        k in 1i32..80,
        p in 0.01f32..1.2,
        min_p in prop_oneof![Just(0.0f32), 0.001f32..0.9],
        joint: bool,
        rounded: bool,
    ) {
        let mut values = normals(vocab, seed, deviation);
        if rounded {
            values.iter_mut().for_each(|x| *x = x.round());
        }
        let order = if joint { FilterOrder::Joint } else { FilterOrder::TopKFirst };
        let filters = Filters { temperature, top_k: k, top_p: p, min_p, order };
        prop_assume!(keeps_what_the_reference_keeps(&values, filters)?);
    }

    #[test]
    fn a_row_does_not_depend_on_its_place(shuffle in Just((0..6usize).collect::<Vec<_>>()).prop_shuffle()) {
        let case = SamplingCase {
            top_p: vec![0.9],
            top_k: vec![0, 5, 40, 2, 0, 17],
            temperature: vec![1.0, 0.5, 2.0, 0.0, 0.1, 1.0],
            ..SamplingCase::new("places", Dtype::F32, 6, 111)
        };
        let plain = case.run(&Engine::cpu(), false, 1, |_| {});
        let of = |row: &usize| *row;
        let moved = SamplingCase {
            values: shuffle.iter().flat_map(|row| case.values[row * 111..][..111].to_vec()).collect(),
            top_k: shuffle.iter().map(|row| case.top_k[*row]).collect(),
            temperature: shuffle.iter().map(|row| case.temperature[*row]).collect(),
            seeds: shuffle.iter().map(|row| case.seeds[*row]).collect(),
            first_positions: shuffle.iter().map(|row| of(row) as i64).collect(),
            ..case.clone()
        };
        let moved = moved.run(&Engine::cpu(), false, 1, |_| {});
        for (to, from) in shuffle.iter().enumerate() {
            prop_assert_eq!((moved.ids[to], moved.log_probs[to]), (plain.ids[*from], plain.log_probs[*from]));
        }
    }
}

/// Draws from one row, and the statistic against the reference.
fn draws(vocab: usize, count: usize, deviation: f32, params: impl Fn(&mut SamplingCase)) {
    let mut case = SamplingCase::new("draws", Dtype::F32, 1, vocab);
    case.values = normals(vocab, 77, deviation);
    case.probs = false;
    params(&mut case);
    let (p, k) = (f64::from(case.top_p[0]), case.top_k[0]);
    let k = if k > 0 { k as usize } else { vocab };
    let temperature = f64::from(case.temperature[0]);
    let (probs, _) = naive(&case.values, temperature, k, p, f64::from(case.min_p[0]), case.order);
    case.indices = Some(vec![0; count]);
    case.seeds = (0..count as u64).map(|seed| seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    let mut drawn = vec![0; vocab];
    let ids = case.run(&Engine::cpu(), false, 1, |_| {}).ids;
    ids.iter().for_each(|&id| drawn[id as usize] += 1);
    let (statistic, limit) = chi_squared(&drawn, &probs);
    assert!(statistic < limit, "{}: {statistic} of {limit}", case.name);
}

#[test]
fn draws_follow_the_distribution() {
    draws(111, 40_000, 1.0, |_| {});
    draws(111, 40_000, 1.0, |case| case.top_p = vec![0.8]);
    draws(111, 40_000, 2.0, |case| case.top_k = vec![10]);
    draws(111, 40_000, 2.0, |case| case.temperature = vec![3.0]);
    draws(32_000, 1_000, 4.0, |case| case.min_p = vec![0.05]);
    draws(32_000, 1_000, 6.0, |_| {});
    draws(128_256, 400, 4.0, |case| case.top_k = vec![20]);
    draws(128_256, 400, 6.0, |case| case.top_p = vec![0.9]);
}

#[test]
fn runs_are_repeatable_and_log_probabilities_are_those_of_the_probabilities() {
    for case in grid(Dtype::F32, 3, 333) {
        let case = SamplingCase { log_probs: LogProbs::Kept, probs: true, ..case };
        let drawn = case.run(&Engine::cpu(), false, 1, |_| {});
        assert_eq!(drawn, case.run(&Engine::cpu(), false, 1, |_| {}), "{}", case.name);
        for (row, (&id, &log_prob)) in drawn.ids.iter().zip(&drawn.log_probs).enumerate() {
            let log_prob = f32::from_bits(log_prob);
            if id < 0 {
                assert_eq!(log_prob, f32::NEG_INFINITY);
                continue;
            }
            let prob = f32::from_bits(drawn.probs[row * case.vocab + id as usize]);
            assert!((log_prob.exp() - prob).abs() <= 3e-6 * prob + 1e-12, "{}: {prob} {log_prob}", case.name);
            let sum: f64 =
                drawn.probs[row * case.vocab..][..case.vocab].iter().map(|&x| f64::from(f32::from_bits(x))).sum();
            assert!((sum - 1.0).abs() < 1e-5, "{}: {sum}", case.name);
        }
    }
}

/// Temperature 0.7, top-k 40, top-p 0.8, with and without min-p.
fn filters() -> impl Iterator<Item = Filters> {
    [FilterOrder::TopKFirst, FilterOrder::Joint].into_iter().flat_map(|order| {
        let of = move |min_p| Filters { temperature: 0.7, top_k: 40, top_p: 0.8, min_p, order };
        [0.0, 0.05].map(of)
    })
}

fn near(got: f32, want: f64) -> bool {
    (f64::from(got) - want).abs() <= 2e-6 * want + 1e-10
}

#[test]
fn softmax_renorm_and_mask_keep_what_the_reference_keeps() {
    let mut compared = 0;
    for (seed, vocab, gap) in [(1, 1, 0), (2, 31, 3), (3, 111, 0), (4, 1027, 5), (5, 9001, 1), (6, 1000, 0)] {
        let (rows, stride) = (3, vocab + gap);
        let logits = normals(rows * stride, seed, 2.0);
        // probabilities that need not sum to 1
        let probs: Vec<f32> = logits.iter().map(|x| x.exp() * 0.01).collect();
        for of in filters() {
            let on_cpu = |what, values: &[f32]| filtered(&Engine::cpu(), what, values, [rows, vocab, stride], of);
            let softmax = on_cpu(Filtering::Softmax, &logits);
            let masked = on_cpu(Filtering::Mask, &logits);
            let renorm = on_cpu(Filtering::Renorm, &probs);
            for row in 0..rows {
                let [at, from] = [row * vocab, row * stride];
                let (k, p, min_p) = (of.top_k as usize, f64::from(of.top_p), f64::from(of.min_p));
                let logits = &logits[from..][..vocab];
                let (want, clear) = naive(logits, f64::from(of.temperature), k, p, min_p, of.order);
                if clear {
                    compared += 1;
                    for id in 0..vocab {
                        let (got, masked) = (softmax[at + id], masked[at + id]);
                        assert!(near(got, want[id]), "{of:?} {vocab}: softmax is {got}, want {}", want[id]);
                        let kept = if want[id] > 0.0 { logits[id] } else { f32::NEG_INFINITY };
                        assert_eq!(masked.to_bits(), kept.to_bits(), "{of:?} {vocab}: masked {id}");
                    }
                }
                let of_probs: Vec<f32> = probs[from..][..vocab].iter().map(|x| x.ln()).collect();
                let (want, clear) = naive(&of_probs, 1.0, k, p, min_p, of.order);
                // the logarithm is rounded
                let close = |got: f32, want: f64| (f64::from(got) - want).abs() <= 4e-6 * want + 1e-10;
                for id in (0..vocab).filter(|_| clear) {
                    let got = renorm[at + id];
                    assert!(close(got, want[id]), "{of:?} {vocab}: normalised is {got}, want {}", want[id]);
                }
            }
        }
    }
    assert!(compared > 60, "{compared} rows were clear");
}

#[test]
fn filtered_nan_and_infinities_are_defined() {
    let off = Filters { temperature: 0.7, top_k: 0, top_p: 1.0, min_p: 0.0, order: FilterOrder::TopKFirst };
    let run = |what, values: &[f32]| filtered(&Engine::cpu(), what, values, [1, values.len(), values.len()], off);
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    assert_eq!(run(Filtering::Softmax, &[nan, 2.0, -inf, 2.0]), [0.0, 0.5, 0.0, 0.5]);
    assert_eq!(run(Filtering::Softmax, &[inf, 2.0, nan, inf]), [0.5, 0.0, 0.0, 0.5]);
    assert_eq!(run(Filtering::Softmax, &[nan, -inf]), [0.0, 0.0]);
    assert_eq!(run(Filtering::Mask, &[nan, 2.0, -inf, 1.5]), [-inf, 2.0, -inf, 1.5]);
    assert_eq!(run(Filtering::Mask, &[nan, -inf]), [-inf, -inf]);
    assert_eq!(run(Filtering::Renorm, &[nan, 3.0, -1.0, 1.0]), [0.0, 0.75, 0.0, 0.25]);
    assert_eq!(run(Filtering::Renorm, &[inf, 3.0, nan, inf]), [0.5, 0.0, 0.0, 0.5]);
    assert_eq!(run(Filtering::Renorm, &[0.0, nan]), [0.0, 0.0]);
}
