//! Sums of blocks against f64, and the draws of a block.

use proptest::prelude::*;

use super::*;
use crate::{random, sampling::row::Row};

fn rows(vocab: usize, seed: u32, deviation: f32) -> Vec<f32> {
    (0..vocab).map(|i| (random::uniform(seed, 0, i as u32, 0) - 0.5) * deviation).collect()
}

proptest! {
    #[test]
    fn the_sum_of_a_row_is_that_of_its_probabilities(
        vocab in 1..3000usize, seed in any::<u32>(), deviation in 0.1f32..60.0, probs in any::<bool>(),
        temperature in prop::sample::select(vec![0.2, 1.0, 7.0]),
    ) {
        let mut values = rows(vocab, seed, deviation);
        if probs {
            values.iter_mut().for_each(|x| *x = x.exp());
        }
        let row = if probs { Row::of_probs(&mut values) } else { Row::of_logits(&mut values, temperature) };
        let of = |x: f32| match row.of.temper {
            Some(temper) => (f64::from(x - row.of.greatest) * f64::from(temper.to_log2)).exp2() * 2f64.powi(36),
            None => f64::from(x) / 2f64.powi(f64::from(row.of.greatest).log2().floor() as i32) * 2f64.powi(35),
        };
        let want: f64 = row.of.values.iter().map(|&x| of(x)).sum();
        let got = row.sum() as f64;
        prop_assert!((got - want).abs() <= 2e-6 * want + 8.0, "{got} {want}");
        // the cut of a token in the middle
        let cut = Cut { value: row.of.values[vocab / 2], end: vocab / 2 };
        let has = |id: usize| cut.has(row.of.values[id], id);
        let want: f64 = (0..vocab).filter(|&id| has(id)).map(|id| of(row.of.values[id])).sum();
        let blocks = Blocks::of(&row.of, cut);
        let got = blocks.sum as f64;
        prop_assert!((got - want).abs() <= 2e-6 * want + 8.0, "{got} {want}");
        for draw in 0..20 {
            match blocks.draw(&row.of, random::bits64(u64::from(seed), 3, draw)) {
                Some(id) => prop_assert!(has(id)),
                None => prop_assert_eq!(blocks.sum, 0),
            }
        }
    }
}

#[test]
fn draws_of_both_ends_have_a_weight() {
    let (inf, most) = (f32::NEG_INFINITY, u64::MAX);
    let mut values = vec![inf; 1500];
    (values[700], values[1100]) = (3.0, 3.0);
    let row = Row::of_logits(&mut values, 1.0);
    let blocks = Blocks::of(&row.of, Cut::ALL);
    assert_eq!(blocks.sum, 2 << 36);
    assert_eq!([0, most].map(|random| blocks.draw(&row.of, random)), [Some(700), Some(1100)]);
    assert_eq!(Blocks::of(&row.of, Cut { value: 3.0, end: 700 }).draw(&row.of, most), None);
}
