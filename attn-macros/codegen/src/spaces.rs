//! Index spaces: what an index counts. `qo_pos` and `kv_pos` count within the sequence of a request, `qo_row` within
//! its queries, `qo_token` over the queries of all requests. A comparison of two spaces is right for a batch of one
//! request and wrong for two, so it is refused; so is an index into an axis of another space.
//!
//! A space is followed through `let`, sums with plain numbers, products and quotients with literals, `min`, `max` and
//! `clamp`, casts, tuples, structs, branches and helpers. A sum of two indices may convert one space to another, so it
//! has none; neither have elements of tensors, lengths and remainders. `space::plain(x)` has none either.
//!
//! The shape of a tensor is known to the derive alone, and what a helper does with its arguments to that helper alone.
//! Where these decide, the macro emits a constant that rustc evaluates ([`Deferred`]).

mod emit;
mod evaluate;
mod value;

use crate::{ir::Function, parse::Links, report::Report, report::SpanRange};

pub(crate) use emit::{checks, summary};
use evaluate::Evaluator;

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
    conditions: Vec<Condition>,
    refusal: Refusal,
    span: SpanRange,
}

#[derive(Debug, PartialEq)]
enum Refusal {
    /// Two indices of different spaces.
    Mixed(String),
    /// An index into an axis of a tensor, by the coordinate that it comes from.
    Axis { tensor: String, axis: usize, word: &'static str },
}

/// What a helper does, by its name in the text.
#[derive(Clone, Debug, PartialEq)]
enum Condition {
    /// This part of its result has the space of this argument. A head divided by a number is no head any more, so for
    /// heads and requests the result must be the argument as it is or moved.
    Returns { helper: String, part: usize, arg: usize, unscaled: bool },
    /// It compares two arguments, or subtracts one from the other.
    Relates { helper: String, a: usize, b: usize, subtracts: bool },
}

/// Checks the indices of a function; reports what the function alone decides.
pub(crate) fn function(f: &Function, report: &mut Report) -> Found {
    Evaluator::new(f, report).run()
}

/// The Rust path of a helper.
fn path_of<'a>(helper: &str, links: &'a Links) -> Option<&'a syn::Path> {
    links.helpers.iter().find(|(name, _)| name == helper).map(|(_, path)| path)
}
