//! The state of attention over a part of the keys, and how parts become a whole.
//!
//! Attention over two disjoint sets of keys follows from attention over each: this is what lets keys be split over
//! work items, and results be cascaded. An *unfinished* state is ([`State`], unnormalised output); a *finished* one
//! is (output, log-sum-exp), see [`merge_state`]. Logs are natural throughout.
//!
//! # Attention in several runs
//!
//! Keys may be attended to by several runs, each with a plan of its own, whose results are then merged: a prefix that many requests share, keys on
//! several devices. `Plan::run_unfinished` writes, for each row, its output over the keys of that run, divided by its own denominator, and its
//! log-sum-exp. Sinks and `output_transform` belong to the row, not to a part of its keys, so that such a run leaves them out:
//!
//! - merging ([`merge_state`]) is associative and commutative up to rounding, and a part without keys (o = 0, lse = -inf) changes nothing;
//! - it holds for softmax, and for every normaliser that divides by a denominator above 0 (`Normalizer::MaxScaled`, `Plain { divide: true }`): the
//!   log-sum-exp is the logarithm of the denominator, whatever it sums up. Of denominators that may be negative it cannot be told;
//! - outputs that are not divided (`Normalizer::Plain { divide: false }`) add up, whatever lse says;
//! - afterwards [`finish_state`] applies sink and `output_transform`, once. Without `output_transform` there is another way, which needs no pass over
//!   the rows: one of the runs, and one alone, is an ordinary one, which takes the sink in.

use crate::{expr::Variant, lang::RowIndex};

/// The running state of one query row over some of its keys. The output that goes with it is
/// the sum of `exp(logit - row_max) * value`, not yet divided.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct State {
    /// Largest logit seen; `-inf` when there was none.
    pub row_max: f32,
    /// Sum of `exp(logit - row_max)`; under a normaliser of a variant's own, of what logits add to the denominator.
    pub denominator: f32,
}

/// Two states merged, and what the outputs that go with them are to be multiplied by before they are added.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Merged {
    /// The state over both sets of keys.
    pub state: State,
    /// Factor of the first output.
    pub first: f32,
    /// Factor of the second output.
    pub second: f32,
}

impl State {
    /// The state over no keys: merging it changes nothing.
    pub const EMPTY: State = State { row_max: f32::NEG_INFINITY, denominator: 0.0 };

    /// The state over the keys of both, which share none.
    #[must_use]
    pub fn merge(self, other: State) -> Merged {
        let row_max = self.row_max.max(other.row_max);
        let (first, second) = (exp_below(self.row_max, row_max), exp_below(other.row_max, row_max));
        let denominator = self.denominator * first + other.denominator * second;
        Merged { state: State { row_max, denominator }, first, second }
    }

    /// Log-sum-exp of the logits: `-inf` over no keys.
    #[must_use]
    pub fn lse(self) -> f32 {
        if self.denominator == 0.0 { f32::NEG_INFINITY } else { self.row_max + self.denominator.ln() }
    }
}

/// `exp(x - max)` for `x <= max`; 0 when both are `-inf`, which is no logit at all.
#[must_use]
pub(crate) fn exp_below(x: f32, max: f32) -> f32 {
    if x == f32::NEG_INFINITY { 0.0 } else { (x - max).exp() }
}

/// Merges two finished states of one row over disjoint sets of keys: `(o, lse)` becomes that over both, and the
/// log-sum-exp over both is returned. `o` and `other_o` are normalised outputs of the same length, `lse` and `other_lse` are in natural log.
///
/// A state over no keys (`lse = -inf`) is the identity, whatever its output holds. The result does not depend on the order of the two;
/// over three, it does up to rounding. A sink must be in one of the states at most, or it counts twice. Outputs that are not
/// divided (`Normalizer::Plain { divide: false }`) add up instead.
///
/// ```
/// use attn_core::state::merge_state;
/// let mut o = [1.0, 0.0];
/// let lse = merge_state(&mut o, 0.0, &[0.0, 1.0], 0.0);
/// assert_eq!(o, [0.5, 0.5]);
/// assert!((lse - 2f32.ln()).abs() < 1e-6);
/// ```
#[must_use = "the outputs are merged in place, the log-sum-exp is returned"]
pub fn merge_state(o: &mut [f32], lse: f32, other_o: &[f32], other_lse: f32) -> f32 {
    let max = lse.max(other_lse);
    let (first, second) = (exp_below(lse, max), exp_below(other_lse, max));
    let sum = first + second;
    match (first == 0.0, second == 0.0) {
        (_, true) => {}
        (true, false) => o.iter_mut().zip(other_o).for_each(|(x, y)| *x = *y),
        (false, false) => {
            let (first, second) = (first / sum, second / sum);
            o.iter_mut().zip(other_o).for_each(|(x, y)| *x = *x * first + *y * second);
        }
    }
    if sum == 0.0 { f32::NEG_INFINITY } else { max + sum.ln() }
}

/// Finishes a row whose state is that over all of its keys, as `Plan::run_unfinished` leaves it, or as such states were merged: its sink enters,
/// and `output_transform` runs. `o` is the output divided by its own denominator (or not divided, where the normaliser does not), `lse` its
/// log-sum-exp, `at` the row. `o` becomes what a run over all keys would have written, up to rounding, and the log-sum-exp is returned.
///
/// `output_transform` is told the row's log-sum-exp as it is; as the largest logit it is told the log-sum-exp before the sink (or the sink,
/// where that is larger), and a denominator that goes with it: the largest logit is not known any more.
///
/// ```
/// use attn_core::{Variant, lang::RowIndex, state::finish_state};
/// // without sink or transform a state is finished as it is
/// let mut o = [0.5, 0.25];
/// let lse = finish_state(&Variant::full(), &mut o, 1.5, RowIndex::default());
/// assert_eq!((o, lse), ([0.5, 0.25], 1.5));
/// ```
#[must_use = "the output is finished in place, the log-sum-exp is returned"]
pub fn finish_state(variant: &Variant, o: &mut [f32], lse: f32, at: RowIndex) -> f32 {
    crate::cpu::finish_divided(variant, o, lse, at)
}

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
        fn unfinished_states_merge_to_the_state_of_all_logits(logits in prop::collection::vec(-80f32..80.0, 0..20), at in 0usize..20) {
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
