//! The running state of one query row (online softmax): its row maximum and denominator.

/// The running state of one query row over some of its keys. Its output is the sum of `exp(logit - row_max) * value`,
/// not yet divided.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct State {
    /// Largest logit so far; `-inf` without keys.
    pub row_max: f32,
    /// Sum of `exp(logit - row_max)`; under a variant's own normaliser, of its denominator terms.
    pub denominator: f32,
}

/// A merged state, and the factors of the two outputs before they are added.
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

    /// The state over the keys of both states, which must be disjoint.
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

/// `exp(x - max)` for `x <= max`; 0 if `x` is `-inf`, even if `max` is `-inf` too.
#[must_use]
pub(crate) fn exp_below(x: f32, max: f32) -> f32 {
    if x == f32::NEG_INFINITY { 0.0 } else { (x - max).exp() }
}
