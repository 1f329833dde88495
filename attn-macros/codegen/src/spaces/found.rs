//! What is found in a function: mistakes under conditions, and what callers have to know.

use crate::report::SpanRange;

/// What a function does with indices.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) deferred: Vec<Deferred>,
    pub(crate) summary: Summary,
}

/// What callers of a helper have to know of it.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    /// Pairs of arguments that are compared.
    pub(crate) compared: Vec<(usize, usize)>,
    /// Pairs of arguments of which one is subtracted from the other.
    pub(crate) subtracted: Vec<(usize, usize)>,
    /// Parts of the result that have the space of an argument: the part, the argument, and whether it is scaled.
    pub(crate) returned: Vec<(usize, usize, bool)>,
}

/// A mistake under conditions that the item alone does not decide.
#[derive(Debug)]
pub(crate) struct Deferred {
    pub(super) conditions: Vec<Condition>,
    pub(super) refusal: Refusal,
    pub(super) span: SpanRange,
}

#[derive(Debug, PartialEq)]
pub(super) enum Refusal {
    /// Two indices of different spaces.
    Mixed(String),
    /// An index into an axis of a tensor, by the coordinate that it comes from.
    Axis { tensor: String, axis: usize, word: &'static str },
}

/// What a helper does, by its name in the text.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Condition {
    /// This part of its result has the space of this argument. A head divided by a number is no head any more, so for
    /// heads and requests the result must be the argument as it is or moved.
    Returns { helper: String, part: usize, arg: usize, unscaled: bool },
    /// It compares two arguments, or subtracts one from the other.
    Relates { helper: String, a: usize, b: usize, subtracts: bool },
}
