//! Extents of KV formats: no function touches a byte or an element outside of its row.
//!
//! `#[kv_format]` emits each function as data too ([`Function`]). Binding follows that data over abstract values
//! ([`interval`]): the dimension, scalar parameters, the element and the counters of loops are
//! numbers; stored bytes, elements of the row and of parameter tensors are any values of their types. Of a branch whose
//! condition is not known both sides are followed. So what is proven holds for every row, every stored byte and every
//! tensor, on the CPU and in kernels.

mod access;
mod machine;
mod program;
mod proof;

pub use program::{Access, Extents, Function, Statement, Term, Touched};
pub(super) use proof::mistake;

use crate::lang::interval::{self, Val, cast_i64};

/// `a + b`. An i32 that may overflow is unknown: a debug build panics there, and a kernel wraps.
#[must_use]
pub fn add(a: Val, b: Val) -> Val {
    without_overflow(a, b, interval::add)
}

/// `a - b`, as [`add`].
#[must_use]
pub fn sub(a: Val, b: Val) -> Val {
    without_overflow(a, b, interval::sub)
}

/// `a * b`, as [`add`].
#[must_use]
pub fn mul(a: Val, b: Val) -> Val {
    without_overflow(a, b, interval::mul)
}

fn without_overflow(a: Val, b: Val, function: fn(Val, Val) -> Val) -> Val {
    let value = function(a, b);
    let (Val::I32(_), Val::I32(_)) = (a, b) else { return value };
    match function(cast_i64(a), cast_i64(b)) {
        Val::Wide(wide) if wide.known && wide.lo >= i32::MIN.into() && wide.hi <= i32::MAX.into() => value,
        _ => interval::cast_i32(Val::Any),
    }
}
