//! Sampling of single rows against what the definition says, by hand. `tests/sampling/cpu.rs` compares with a naive
//! reference.

use super::*;
use crate::ops::{Array, ArrayMut};
use crate::sampling::{FilterOrder, Penalties};

/// What one row gives: id, log-probability, probabilities.
fn drawn(logits: &[f32], params: &SamplingParams<'_>) -> (i32, f32, Vec<f32>) {
    let (mut ids, mut positions, mut log_probs) = ([7], [3], [7.0]);
    let mut probs = vec![7.0; logits.len()];
    let mut counts = vec![0; logits.len()];
    let mut out = SampleOut::new(ArrayMut::host(&mut ids), ArrayMut::host(&mut positions));
    out.log_probs = Some(ArrayMut::host(&mut log_probs));
    out.probs = Some(TensorMut::host(&mut probs, &[1, logits.len()]).expect("fits"));
    out.counts = Some(ArrayMut::host(&mut counts));
    sample(Source::Logits, &TensorRef::host(logits, &[1, logits.len()]).expect("fits"), params, &mut out)
        .expect("sound");
    assert_eq!(positions, [4]);
    assert_eq!(counts.iter().sum::<u32>(), u32::from(ids[0] >= 0));
    assert!(ids[0] < 0 || counts[ids[0] as usize] == 1);
    (ids[0], log_probs[0], probs)
}

/// Logits of probabilities in eighths.
fn eighths(of: &[u8]) -> Vec<f32> {
    of.iter().map(|&n| (f32::from(n) / 8.0).ln()).collect()
}

fn near(got: &[f32], want: &[f32]) -> bool {
    got.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-6)
}

#[test]
fn filters_keep_the_tokens_of_their_definition() {
    let logits = eighths(&[1, 4, 2, 1]);
    let base = SamplingParams::default;
    let probs = |params: SamplingParams<'_>| drawn(&logits, &params).2;
    assert!(near(&probs(base()), &[0.125, 0.5, 0.25, 0.125]));
    assert!(near(&probs(SamplingParams { top_k: 2.into(), ..base() }), &[0.0, 2.0 / 3.0, 1.0 / 3.0, 0.0]));
    // of equal tokens the lower id
    let three = [1.0 / 7.0, 4.0 / 7.0, 2.0 / 7.0, 0.0];
    assert!(near(&probs(SamplingParams { top_k: 3.into(), ..base() }), &three));
    assert!(near(&probs(SamplingParams { top_p: 0.8.into(), ..base() }), &three));
    assert!(near(&probs(SamplingParams { top_p: 0.74.into(), ..base() }), &[0.0, 2.0 / 3.0, 1.0 / 3.0, 0.0]));
    assert!(near(&probs(SamplingParams { min_p: 0.4.into(), ..base() }), &[0.0, 2.0 / 3.0, 1.0 / 3.0, 0.0]));
    // 0.6 of the two likeliest is the first; of all, both
    let both = SamplingParams { top_k: 2.into(), top_p: 0.6.into(), ..base() };
    assert!(near(&probs(both), &[0.0, 1.0, 0.0, 0.0]));
    let joint = SamplingParams { order: FilterOrder::Joint, ..both };
    assert!(near(&probs(joint), &[0.0, 2.0 / 3.0, 1.0 / 3.0, 0.0]));
    for one in [SamplingParams { top_p: 0.0.into(), ..base() }, SamplingParams { temperature: 0.0.into(), ..base() }] {
        assert_eq!(drawn(&logits, &one).0, 1);
        assert!(near(&probs(one), &[0.0, 1.0, 0.0, 0.0]));
    }
    for off in [
        SamplingParams { top_k: 400.into(), ..base() },
        SamplingParams { top_k: (-1).into(), ..base() },
        SamplingParams { top_p: 1.5.into(), ..base() },
        SamplingParams { top_p: f32::NAN.into(), min_p: f32::NAN.into(), ..base() },
    ] {
        assert_eq!(probs(off), probs(base()));
    }
}

#[test]
fn log_probabilities_are_of_the_distribution_that_is_asked_for() {
    let logits = eighths(&[1, 4, 2, 1]);
    let one = SamplingParams { top_k: 1.into(), ..SamplingParams::default() };
    assert!((drawn(&logits, &one).1 - 0.5f32.ln()).abs() < 1e-6);
    assert_eq!(drawn(&logits, &SamplingParams { log_probs: LogProbs::Kept, ..one }).1, 0.0);
    let hot = SamplingParams { temperature: 2.0.into(), ..one };
    let want = -(1.0 + 0.5f32.sqrt() + 2.0 * 0.25f32.sqrt()).ln();
    assert!((drawn(&logits, &hot).1 - want).abs() < 1e-6);
}

#[test]
fn infinities_nan_and_masks() {
    let base = SamplingParams::default();
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    assert_eq!(drawn(&[nan, -inf, nan], &base), (-1, -inf, vec![0.0; 3]));
    assert_eq!(drawn(&[], &base), (-1, -inf, vec![]));
    assert_eq!(drawn(&[nan, -1e30, -inf], &base), (1, 0.0, vec![0.0, 1.0, 0.0]));
    assert_eq!(drawn(&[inf, 3.0, nan, inf], &base).2, [0.5, 0.0, 0.0, 0.5]);
    let greedy = SamplingParams { temperature: 0.0.into(), ..base };
    assert_eq!(drawn(&[nan, 3.0, 2.0, 3.0], &greedy).0, 1);
    assert_eq!(drawn(&[nan, 3.0, inf, inf], &greedy).0, 2);
    let mask = [0b1010];
    let masked = SamplingParams { token_mask: Some(Array::host(&mask)), ..base };
    assert_eq!(drawn(&[inf, 2.0, 9.0, 2.0], &masked).2, [0.0, 0.5, 0.0, 0.5]);
    let none = SamplingParams { token_mask: Some(Array::host(&[0])), ..base };
    assert_eq!(drawn(&[1.0, 2.0], &none).0, -1);
    assert_eq!(drawn(&[5.0], &base), (0, 0.0, vec![1.0]));
}

#[test]
fn penalties_follow_counts_and_need_them() {
    let mut counts = [0, 1 << 31, 2, 0];
    let (mut ids, mut positions) = ([0], [0]);
    let mut probs = [0.0; 4];
    let penalties = Penalties { repetition: 2.0.into(), presence: 1.0.into(), frequency: 0.5.into() };
    let params = SamplingParams { penalties: Some(penalties), ..SamplingParams::default() };
    let logits = TensorRef::host(&[1.0f32, 2.0, 6.0, -100.0], &[1, 4]).expect("fits");
    let mut out = SampleOut::new(ArrayMut::host(&mut ids), ArrayMut::host(&mut positions));
    let error = sample(Source::Logits, &logits, &params, &mut out).expect_err("no counts");
    assert!(error.to_string().contains("`penalties` needs `counts`"), "{error}");
    out.counts = Some(ArrayMut::host(&mut counts));
    out.probs = Some(TensorMut::host(&mut probs, &[1, 4]).expect("fits"));
    sample(Source::Logits, &logits, &params, &mut out).expect("sound");
    // 1, 2 / 2, 6 / 2 - 1 - 1
    assert!(near(&probs, &[1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0, 0.0]));
    assert_eq!(counts.iter().map(|n| n & 0xffff).sum::<u32>(), 3);
}

#[test]
fn the_likeliest_tokens_in_falling_order() {
    let (mut ids, mut positions) = ([0], [0]);
    let (mut top_ids, mut top_log_probs) = ([9; 5], [9.0; 5]);
    let mut out = SampleOut::new(ArrayMut::host(&mut ids), ArrayMut::host(&mut positions));
    let top =
        TopLogProbs { ids: ArrayMut::host(&mut top_ids), log_probs: ArrayMut::host(&mut top_log_probs), count: 5 };
    out.top = Some(top);
    let logits = eighths(&[1, 4, 2, 1, 0]);
    let logits = TensorRef::host(&logits, &[1, 5]).expect("fits");
    sample(Source::Logits, &logits, &SamplingParams::default(), &mut out).expect("sound");
    assert_eq!(top_ids, [1, 2, 0, 3, -1]);
    assert!(near(&top_log_probs[..4], &[0.5f32.ln(), 0.25f32.ln(), 0.125f32.ln(), 0.125f32.ln()]));
    assert_eq!(top_log_probs[4], f32::NEG_INFINITY);
}

#[test]
fn what_does_not_fit_is_refused_before_anything_is_written() {
    let logits = [0f32; 8];
    let logits = TensorRef::host(&logits, &[2, 4]).expect("fits");
    let refused = |params: &SamplingParams<'_>, rows: usize| {
        let (mut ids, mut positions) = (vec![7; rows], vec![3; rows]);
        let mut counts = vec![0; 8];
        let mut out = SampleOut::new(ArrayMut::host(&mut ids), ArrayMut::host(&mut positions));
        out.counts = Some(ArrayMut::host(&mut counts));
        let error = sample(Source::Logits, &logits, params, &mut out).expect_err("does not fit").to_string();
        assert!(ids.iter().all(|&id| id == 7) && positions.iter().all(|&at| at == 3));
        error
    };
    let base = SamplingParams::default();
    assert!(refused(&base, 3).contains("`ids` has 3 entries; 2 are needed"));
    let short = SamplingParams { top_p: PerRow::Rows(Array::host(&[0.5])), ..base };
    assert!(refused(&short, 2).contains("`top_p` has 1 entries; 2 are needed"));
    let indices = SamplingParams { indices: Some(Array::host(&[1, 2])), ..base };
    assert!(refused(&indices, 2).contains("`indices[1]` is 2; it must be 0 to 1"));
    let mask = SamplingParams { token_mask: Some(Array::host(&[1])), ..base };
    assert!(refused(&mask, 2).contains("`token_mask` has 1 entries; 2 are needed"));
    let penalties = Penalties { repetition: 0.0.into(), ..Penalties::default() };
    let penalties = SamplingParams { penalties: Some(penalties), ..base };
    assert!(refused(&penalties, 2).contains("`repetition` is 0; it must be above 0"));
}

#[test]
fn probabilities_need_not_sum_to_one_and_have_no_temperature() {
    let (mut ids, mut positions) = ([0; 3], [0; 3]);
    let (mut probs, mut log_probs) = ([7.0; 12], [0.0; 3]);
    let mut out = SampleOut::new(ArrayMut::host(&mut ids), ArrayMut::host(&mut positions));
    out.probs = Some(TensorMut::host(&mut probs, &[3, 4]).expect("fits"));
    out.log_probs = Some(ArrayMut::host(&mut log_probs));
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    let given = [1.0f32, 2.0, 0.0, 3.0, inf, 1.0, inf, nan, 1e-30, nan, -1.0, 0.0];
    let given = TensorRef::host(&given, &[3, 4]).expect("fits");
    let params = SamplingParams { top_k: 2.into(), ..SamplingParams::default() };
    sample(Source::Probs, &given, &params, &mut out).expect("sound");
    let refused = SamplingParams { temperature: 0.5.into(), ..params };
    let error = sample(Source::Probs, &given, &refused, &mut out).expect_err("probabilities").to_string();
    assert!(error.contains("`temperature` is for logits"), "{error}");
    assert!(near(&probs[..4], &[0.0, 0.4, 0.0, 0.6]) && probs[4..8] == [0.5, 0.0, 0.5, 0.0]);
    assert_eq!((&probs[8..], ids[2]), (&[1.0, 0.0, 0.0, 0.0][..], 0));
    assert!(near(&log_probs, &[if ids[0] == 3 { 0.5f32.ln() } else { (1.0f32 / 3.0).ln() }, 0.5f32.ln(), 0.0]));
}
