//! Partial states: attention over a part of the keys, and how parts are merged into a whole.
//!
//! Attention over two disjoint sets of keys follows from attention over each. So the keys of a request can be split
//! over work items, and prefixes shared in a cascade. While an item runs, a row has a running [`State`] and an
//! unnormalised output (online softmax). Between launches and runs a partial state is (O, LSE): the output divided by
//! its own denominator, and its log-sum-exp; see [`merge_state`]. Logarithms are natural throughout.
//!
//! # Attention in several runs
//!
//! Several runs, each with its own plan, may attend to parts of the keys whose results are merged afterwards: a prefix
//! that many requests share, or keys on several devices. A partial run (`RunOptions::partial`) writes for each row its
//! output over the keys of that run, divided by its own denominator, and its log-sum-exp. Sinks and `output_transform`
//! belong to the row, not to a part of its keys, so a partial run omits them:
//!
//! - Merging ([`merge_state`]) is commutative, and associative up to rounding. A part without keys (o = 0, lse = -inf)
//!   is the identity.
//! - It is valid for softmax and for every normaliser that divides by a positive denominator (`Normalizer::MaxScaled`,
//!   `Plain { divide: true }`): the log-sum-exp is the logarithm of the denominator, whatever its terms are. Merging is
//!   not valid for denominators that may be negative.
//! - Undivided outputs (`Normalizer::Plain { divide: false }`) are added; lse is ignored.
//! - Afterwards [`finalize`] applies the sink and `output_transform`, once. Without `output_transform` no such pass is
//!   needed if exactly one of the runs is an ordinary run, which applies the sink.

mod finalize;
mod merge;
mod row_state;

pub use finalize::finalize;
pub(crate) use finalize::{finalize_plain, finalize_with_sink};
pub use merge::merge_state;
pub(crate) use row_state::exp_below;
pub use row_state::{Merged, State};

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn state() -> impl Strategy<Value = ([f32; 3], f32)> {
        let lse = prop_oneof![4 => -60f32..60.0, 1 => Just(f32::NEG_INFINITY)];
        (prop::array::uniform3(-3f32..3.0), lse)
    }

    fn merged(mut a: ([f32; 3], f32), b: &([f32; 3], f32)) -> ([f32; 3], f32) {
        let lse = merge_state(&mut a.0, a.1, &b.0, b.1);
        (a.0, lse)
    }

    fn near(a: f32, b: f32) -> bool {
        a == b || (a - b).abs() <= 1e-5 * (1.0 + b.abs())
    }

    proptest! {
        #[test]
        fn merging_is_associative_up_to_rounding(a in state(), b in state(), c in state()) {
            let left = merged(merged(a, &b), &c);
            let right = merged(a, &merged(b, &c));
            prop_assert!(near(left.1, right.1), "{:?} {:?}", left, right);
            if left.1 > f32::NEG_INFINITY {
                prop_assert!(left.0.iter().zip(right.0).all(|(x, y)| near(*x, y)), "{:?} {:?}", left, right);
            }
        }

        #[test]
        fn merging_commutes(a in state(), b in state()) {
            let (ab, ba) = (merged(a, &b), merged(b, &a));
            prop_assert_eq!(ab.1, ba.1);
            prop_assert!(ab.0 == ba.0 || ab.1 == f32::NEG_INFINITY);
        }

        #[test]
        fn no_keys_are_the_identity(a in state()) {
            let empty = ([f32::NAN; 3], f32::NEG_INFINITY);
            prop_assert_eq!(merged(a, &empty), a);
            if a.1 > f32::NEG_INFINITY {
                prop_assert_eq!(merged(empty, &a), a);
            }
        }

        #[test]
        fn running_states_merge_to_the_state_of_all_logits(
            logits in prop::collection::vec(-80f32..80.0, 0..20), at in 0usize..20,
        ) {
            let over = |logits: &[f32]| {
                let row_max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                State { row_max, denominator: logits.iter().map(|l| (l - row_max).exp()).sum() }
            };
            let (left, right) = logits.split_at(at.min(logits.len()));
            let (merged, whole) = (over(left).merge(over(right)), over(&logits));
            prop_assert_eq!(merged.state.row_max, whole.row_max);
            prop_assert!(near(merged.state.lse(), whole.lse()));
            prop_assert_eq!(over(left).merge(State::EMPTY).state, over(left));
        }
    }
}
