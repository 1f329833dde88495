//! Sums, differences, products, bit operations, casts.

use super::{
    Val,
    bits::{Bits, low_ones},
    integer::{IntType, Interval},
    value::{binary, unary},
};
use crate::lang::Tristate;

/// `a + b`.
#[inline]
#[must_use]
pub fn add(a: Val, b: Val) -> Val {
    binary(a, b, |a, b| {
        let (known, x, y) = low_bits(a, b);
        Interval::wrapped(a.ty, a.lo + b.lo, a.hi + b.hi).with_bits(known, x.wrapping_add(y) & a.ty.mask())
    })
}

/// `a - b`.
#[inline]
#[must_use]
pub fn sub(a: Val, b: Val) -> Val {
    binary(a, b, |a, b| {
        let (known, x, y) = low_bits(a, b);
        Interval::wrapped(a.ty, a.lo - b.hi, a.hi - b.lo).with_bits(known, x.wrapping_sub(y) & a.ty.mask())
    })
}

/// `a * b`.
#[inline]
#[must_use]
pub fn mul(a: Val, b: Val) -> Val {
    binary(a, b, |a, b| {
        let (low, x, y) = low_bits(a, b);
        let zeros = (low_zeros(a) + low_zeros(b)).min(32);
        let zeros = u32::MAX.checked_shr(32 - zeros).unwrap_or(0) & a.ty.mask();
        let corners = [(a.lo, b.lo), (a.lo, b.hi), (a.hi, b.lo), (a.hi, b.hi)];
        let products = corners.map(|(x, y)| i128::from(x) * i128::from(y));
        let (lo, hi) = products.iter().fold((i128::MAX, i128::MIN), |(lo, hi), &x| (lo.min(x), hi.max(x)));
        let product = match (i64::try_from(lo), i64::try_from(hi)) {
            (Ok(lo), Ok(hi)) => Interval::wrapped(a.ty, lo, hi),
            _ => Interval::full(a.ty),
        };
        product.with_bits(low | zeros, x.wrapping_mul(y) & low)
    })
}

/// `-a`.
#[inline]
#[must_use]
pub fn neg(a: Val) -> Val {
    unary(a, |a| Interval::wrapped(a.ty, -a.hi, -a.lo))
}

/// The mask of trailing bits known in both operands, and their values: that many trailing bits of a sum, a difference
/// or a product are known.
#[inline]
fn low_bits(a: Interval, b: Interval) -> (u32, u32, u32) {
    let (x, y) = (a.bits(), b.bits());
    (low_ones(x.known & y.known) & a.ty.mask(), x.value, y.value)
}

/// The number of known trailing zeros.
#[inline]
fn low_zeros(a: Interval) -> u32 {
    let bits = a.bits();
    low_ones(bits.known & !bits.value).count_ones()
}

/// `!a`, of an integer or a bool.
#[must_use]
pub fn bit_not(a: Val) -> Val {
    match a {
        Val::Bool(a) => Val::Bool(a.negated()),
        Val::Int(a) => {
            let flipped = |x: i64| a.ty.min() + a.ty.max() - x;
            let (known, value) = (a.known, !a.value & a.ty.mask());
            Val::Int(Interval::new(a.ty, flipped(a.hi), flipped(a.lo)).with_bits(known, value))
        }
        Val::Any => Val::Any,
    }
}

/// `a & b`, of integers or bools.
#[must_use]
pub fn bit_and(a: Val, b: Val) -> Val {
    if let (Val::Bool(a), Val::Bool(b)) = (a, b) {
        return Val::Bool(both(a, b));
    }
    binary(a, b, |a, b| {
        let (x, y) = (a.bits(), b.bits());
        let known = (x.known & y.known) | (x.known & !x.value) | (y.known & !y.value);
        // a non-negative operand bounds the result
        let (lo, hi) = match (a.lo >= 0, b.lo >= 0) {
            (true, true) => (0, a.hi.min(b.hi)),
            (true, false) => (0, a.hi),
            (false, true) => (0, b.hi),
            (false, false) => (a.ty.min(), a.ty.max()),
        };
        Interval::from_bits(a.ty, Bits { known, value: x.value & y.value }, lo, hi)
    })
}

/// `a | b`, of integers or bools.
#[must_use]
pub fn bit_or(a: Val, b: Val) -> Val {
    if let (Val::Bool(a), Val::Bool(b)) = (a, b) {
        return Val::Bool(both(a.negated(), b.negated()).negated());
    }
    binary(a, b, |a, b| {
        let (x, y) = (a.bits(), b.bits());
        let known = (x.known & y.known) | x.value | y.value;
        let lo = if a.lo >= 0 && b.lo >= 0 { a.lo.max(b.lo) } else { a.ty.min() };
        Interval::from_bits(a.ty, Bits { known, value: x.value | y.value }, lo, a.ty.max())
    })
}

/// `a ^ b`, of integers or bools.
#[must_use]
pub fn bit_xor(a: Val, b: Val) -> Val {
    if let (Val::Bool(a), Val::Bool(b)) = (a, b) {
        return Val::Bool(Tristate::known(
            a != b && a.negated() == b && a != Tristate::Unknown,
            a == b && a != Tristate::Unknown,
        ));
    }
    binary(a, b, |a, b| {
        let (x, y) = (a.bits(), b.bits());
        let known = x.known & y.known;
        Interval::from_bits(a.ty, Bits { known, value: (x.value ^ y.value) & known }, a.ty.min(), a.ty.max())
    })
}

#[inline]
pub(super) fn both(a: Tristate, b: Tristate) -> Tristate {
    Tristate::known(a == Tristate::True && b == Tristate::True, a == Tristate::False || b == Tristate::False)
}

/// `a as i32`.
#[must_use]
pub fn cast_i32(a: Val) -> Val {
    cast(a, IntType::I32)
}

/// `a as u32`.
#[must_use]
pub fn cast_u32(a: Val) -> Val {
    cast(a, IntType::U32)
}

/// `a as u8`.
#[must_use]
pub fn cast_u8(a: Val) -> Val {
    cast(a, IntType::U8)
}

fn cast(a: Val, ty: IntType) -> Val {
    Val::Int(match a {
        Val::Int(a) => a.cast(ty),
        Val::Bool(Tristate::False) => Interval::new(ty, 0, 0),
        Val::Bool(Tristate::Unknown) => Interval::new(ty, 0, 1),
        Val::Bool(Tristate::True) => Interval::new(ty, 1, 1),
        Val::Any => Interval::full(ty),
    })
}
