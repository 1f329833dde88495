//! Comparisons, `&&`, `||`, and `if`.

use super::{
    Val,
    bits::Bits,
    integer::Interval,
    ops,
    value::{operands, tristate},
};
use crate::lang::Tristate;

/// `a < b`.
#[inline]
#[must_use]
pub fn lt(a: Val, b: Val) -> Val {
    compared(a, b, |a, b| Tristate::known(a.hi < b.lo, a.lo >= b.hi))
}

/// `a <= b`.
#[inline]
#[must_use]
pub fn le(a: Val, b: Val) -> Val {
    compared(a, b, |a, b| Tristate::known(a.hi <= b.lo, a.lo > b.hi))
}

/// `a > b`.
#[inline]
#[must_use]
pub fn gt(a: Val, b: Val) -> Val {
    lt(b, a)
}

/// `a >= b`.
#[inline]
#[must_use]
pub fn ge(a: Val, b: Val) -> Val {
    le(b, a)
}

/// `a == b`, of integers or bools.
#[inline]
#[must_use]
pub fn eq(a: Val, b: Val) -> Val {
    if let (Val::Bool(_), Val::Bool(_)) = (a, b) {
        return ops::bit_not(ops::bit_xor(a, b));
    }
    compared(a, b, |a, b| {
        let (x, y) = (a.bits(), b.bits());
        let differ = ((a.known & y.known) | (b.known & x.known)) & (x.value ^ y.value) != 0;
        let one = a.single().is_some() && a.single() == b.single();
        Tristate::known(one, a.hi < b.lo || b.hi < a.lo || differ)
    })
}

/// `a != b`, of integers or bools.
#[must_use]
pub fn ne(a: Val, b: Val) -> Val {
    ops::bit_not(eq(a, b))
}

#[inline]
fn compared(a: Val, b: Val, f: impl FnOnce(Interval, Interval) -> Tristate) -> Val {
    Val::Bool(operands(a, b).map_or(Tristate::Unknown, |(a, b)| f(a, b)))
}

/// `a && b`.
#[inline]
#[must_use]
pub fn both(a: Val, b: Val) -> Val {
    Val::Bool(ops::both(tristate(a), tristate(b)))
}

/// `a || b`.
#[inline]
#[must_use]
pub fn either(a: Val, b: Val) -> Val {
    Val::Bool(ops::both(tristate(a).negated(), tristate(b).negated()).negated())
}

/// `if condition { a } else { b }`. The result is the join of both where the condition is unknown.
#[must_use]
pub fn select(condition: Val, a: Val, b: Val) -> Val {
    let condition = tristate(condition);
    if let (Val::Bool(a), Val::Bool(b)) = (a, b) {
        return Val::Bool(match condition {
            Tristate::True => a,
            Tristate::False => b,
            Tristate::Unknown if a == b => a,
            Tristate::Unknown => Tristate::Unknown,
        });
    }
    operands(a, b).map_or(Val::Any, |(a, b)| {
        Val::Int(match condition {
            Tristate::True => a,
            Tristate::False => b,
            Tristate::Unknown => join(a, b),
        })
    })
}

fn join(a: Interval, b: Interval) -> Interval {
    let (x, y): (Bits, Bits) = (a.bits(), b.bits());
    let known = x.known & y.known & !(x.value ^ y.value) & a.ty.mask();
    Interval::new(a.ty, a.lo.min(b.lo), a.hi.max(b.hi)).with_bits(known, x.value)
}
