//! What is found in a function: mistakes under conditions, and what callers have to know.

use crate::report::SpanRange;

/// What a function does with indices.
#[derive(Debug, Default)]
pub struct Found {
    /// Mistakes that others decide.
    pub deferred: Vec<Deferred>,
    /// What callers have to know.
    pub summary: Summary,
}

/// What callers of a helper have to know of it.
#[derive(Debug, Default)]
pub struct Summary {
    /// Pairs of arguments that are compared.
    pub compared: Vec<(usize, usize)>,
    /// Pairs of arguments of which one is subtracted from the other.
    pub subtracted: Vec<(usize, usize)>,
    /// Parts of the result that have the space of an argument: the part, the argument, and whether it is scaled.
    pub returned: Vec<(usize, usize, bool)>,
}

/// A mistake under conditions that the item alone does not decide.
#[derive(Debug)]
pub struct Deferred {
    /// All of them must hold.
    pub conditions: Vec<Condition>,
    /// What is wrong then.
    pub refusal: Refusal,
    /// Where.
    pub span: SpanRange,
}

/// What is wrong.
#[derive(Debug, PartialEq)]
pub enum Refusal {
    /// Two indices of different spaces.
    Mixed(String),
    /// An index into an axis of a tensor, with a message for each dimension that the axis may have; an empty one stands
    /// for an index that fits.
    #[allow(missing_docs)]
    Axis { tensor: String, axis: usize, messages: [String; 3] },
}

/// What a helper does, by its name in the text.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Condition {
    /// This part of its result has the space of this argument. A head divided by a number is no head any more, so for
    /// heads and requests the result must be the argument as it is or moved.
    Returns { helper: String, part: usize, arg: usize, unscaled: bool },
    /// It compares two arguments, or subtracts one from the other.
    Relates { helper: String, a: usize, b: usize, subtracts: bool },
}
