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
mod found;
mod value;

use crate::{ir::Function, report::Report};

pub(crate) use emit::{checks, summary};
use evaluate::Evaluator;
pub use found::{Condition, Deferred, Found, Refusal, Summary};

/// Checks the indices of a function; reports what the function alone decides.
pub(crate) fn function(f: &Function, report: &mut Report) -> Found {
    Evaluator::new(f, report).run()
}
