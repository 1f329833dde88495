//! Bisection finds the end of a condition, and a good guess costs few calls.

use std::cell::Cell;

use super::*;
use crate::plan::search::{last_true, last_true_near};

proptest! {
    #[test]
    fn both_searches_find_the_end_and_a_good_guess_costs_few_calls(
        max in 0u64..2000, end in 0u64..2500, guess in 0u64..2500, is_known: bool,
    ) {
        let end = end.min(max);
        let calls = Cell::new(0);
        let holds = |n: u64| {
            calls.set(calls.get() + 1);
            assert!(n > 0 && n <= max, "{n} is given, or out of range");
            n <= end
        };
        let is_last = |n: u64| {
            assert!(n < max);
            is_known && n == end
        };
        prop_assert_eq!(last_true(max, &holds), end);
        calls.set(0);
        let (found, said) = last_true_near(max, guess, &holds, &is_last);
        prop_assert_eq!(found, end);
        prop_assert!(!said || is_known);
        let far = end.abs_diff(guess.min(max)) + 1;
        prop_assert!(calls.get() <= 2 * (far.ilog2() + 1) + 1, "{} for {}", calls.get(), far);
    }
}
