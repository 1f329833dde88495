//! What filters keep, against their definition: all tokens in order, and from them the first ones.

use proptest::prelude::*;

use super::*;

impl Row<'_> {
    /// All allowed tokens in order.
    fn sorted(&self) -> Vec<usize> {
        let mut tokens = self.allowed();
        tokens.sort_by(|&a, &b| self.rank(a, b));
        tokens
    }

    /// What is kept by the definition.
    fn kept_of_sorted(&self, filters: &Filters) -> Vec<usize> {
        let mut kept = self.sorted();
        if self.of.temper.is_some_and(|temper| temper.greedy) {
            kept.truncate(1);
        }
        if filters.top_k > 0 {
            kept.truncate(filters.top_k as usize);
        }
        if filters.top_p < 1.0 {
            let of_kept = filters.order == FilterOrder::TopKFirst && filters.top_k > 0;
            let of = if of_kept { self.masses(&kept) } else { self.sum() };
            let (target, mut before) = (share_target(of, filters.top_p), 0);
            kept = kept.into_iter().take_while(|&id| (before < target, before += self.mass(id)).0).collect();
        }
        if filters.min_p > 0.0 {
            kept.truncate(kept.iter().take_while(|&&id| self.above_min_p(id, filters.min_p)).count());
        }
        kept.sort_unstable();
        kept
    }
}

fn value() -> impl Strategy<Value = f32> {
    // few different values: many tokens are equal
    let special = prop::sample::select(vec![0.0, -0.0, f32::NAN, f32::NEG_INFINITY, f32::INFINITY, 1e-40, -60.0]);
    prop_oneof![40 => (-30..30i8).prop_map(|x| f32::from(x) / 4.0), 40 => -12f32..12.0, 1 => special]
}

proptest! {
    #[test]
    fn filters_keep_what_sorting_would_keep(
        values in prop::collection::vec(value(), 0..900),
        temperature in prop::sample::select(vec![0.0, 0.3, 1.0, 2.5, 30.0, f32::NAN]),
        top_k in prop::sample::select(vec![-1, 0, 1, 2, 30, 64, 65, 500, 5000]),
        top_p in prop::sample::select(vec![0.0, 0.1, 0.5, 0.9, 0.999, 1.0, f32::NAN]),
        min_p in prop::sample::select(vec![0.0, 1e-6, 0.05, 0.5, 1.0, f32::NAN]),
        [joint, probs] in any::<[bool; 2]>(),
        count in 0..100usize,
    ) {
        let order = if joint { FilterOrder::Joint } else { FilterOrder::TopKFirst };
        let filters = Filters { top_k, top_p, min_p, order };
        let mut values = values;
        let row = if probs { Row::of_probs(&mut values) } else { Row::of_logits(&mut values, temperature) };
        let kept = row.keep(&filters);
        if let Some(tokens) = &kept.tokens {
            prop_assert_eq!(tokens, &row.kept_of_sorted(&filters));
            prop_assert_eq!(kept.sum, row.masses(tokens));
        } else {
            prop_assert_eq!(row.sum(), kept.sum);
        }
        let likeliest: Vec<usize> = row.sorted().into_iter().filter(|&id| row.mass(id) > 0).take(count).collect();
        prop_assert_eq!(row.likeliest(count), likeliest);
    }
}
