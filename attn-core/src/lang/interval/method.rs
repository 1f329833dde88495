//! Methods of integers.

use super::{
    Val,
    bits::low_ones,
    integer::{IntType, Interval},
    value::{binary, unary},
};
use crate::lang::Tristate;

/// `a.min(b)`.
#[must_use]
pub fn min(a: Val, b: Val) -> Val {
    binary(a, b, |a, b| Interval::new(a.ty, a.lo.min(b.lo), a.hi.min(b.hi)))
}

/// `a.max(b)`.
#[must_use]
pub fn max(a: Val, b: Val) -> Val {
    binary(a, b, |a, b| Interval::new(a.ty, a.lo.max(b.lo), a.hi.max(b.hi)))
}

/// `x.clamp(low, high)`.
#[must_use]
pub fn clamp(x: Val, low: Val, high: Val) -> Val {
    min(max(x, low), high)
}

/// `a.abs()`.
#[must_use]
pub fn abs(a: Val) -> Val {
    unary(a, |a| {
        let (lo, hi) = magnitude(a.lo, a.hi);
        Interval::wrapped(a.ty, lo, hi)
    })
}

/// `a.unsigned_abs()`.
#[must_use]
pub fn unsigned_abs(a: Val) -> Val {
    unary(a, |a| {
        let (lo, hi) = magnitude(a.lo, a.hi);
        Interval::new(unsigned(a.ty), lo, hi)
    })
}

/// `a.abs_diff(b)`.
#[must_use]
pub fn abs_diff(a: Val, b: Val) -> Val {
    binary(a, b, |a, b| {
        let (lo, hi) = magnitude(a.lo - b.hi, a.hi - b.lo);
        Interval::new(unsigned(a.ty), lo, hi)
    })
}

/// Bounds of `|x|` for `lo <= x <= hi`.
fn magnitude(lo: i64, hi: i64) -> (i64, i64) {
    if lo >= 0 {
        (lo, hi)
    } else if hi <= 0 {
        (-hi, -lo)
    } else {
        (0, hi.max(-lo))
    }
}

fn unsigned(ty: IntType) -> IntType {
    if ty == IntType::I32 { IntType::U32 } else { ty }
}

/// `a.signum()`.
#[must_use]
pub fn signum(a: Val) -> Val {
    unary(a, |a| Interval::new(a.ty, a.lo.signum(), a.hi.signum()))
}

/// `a.saturating_add(b)`.
#[must_use]
pub fn saturating_add(a: Val, b: Val) -> Val {
    binary(a, b, |a, b| saturated(a.ty, a.lo + b.lo, a.hi + b.hi))
}

/// `a.saturating_sub(b)`.
#[must_use]
pub fn saturating_sub(a: Val, b: Val) -> Val {
    binary(a, b, |a, b| saturated(a.ty, a.lo - b.hi, a.hi - b.lo))
}

fn saturated(ty: IntType, lo: i64, hi: i64) -> Interval {
    let fit = |x: i64| x.clamp(ty.min(), ty.max());
    Interval::new(ty, fit(lo), fit(hi))
}

/// `a.pow(n)`; unknown for a base that may be negative.
#[must_use]
pub fn pow(a: Val, n: Val) -> Val {
    let Val::Int(a) = a else { return Val::Any };
    let Val::Int(n) = n else { return Val::Int(Interval::full(a.ty)) };
    if a.lo < 0 || n.lo < 0 {
        return Val::Int(Interval::full(a.ty));
    }
    // `0.pow(0)` is 1
    let lo = if a.lo == 0 { Some(0) } else { power(a.lo, n.lo, a.ty.max()) };
    let hi = power(a.hi.max(1), n.hi, a.ty.max());
    Val::Int(match (lo, hi) {
        (Some(lo), Some(hi)) => Interval::new(a.ty, lo, hi),
        _ => Interval::full(a.ty),
    })
}

/// `base^n` for `base >= 1`, if it is at most `most`.
fn power(base: i64, n: i64, most: i64) -> Option<i64> {
    if base <= 1 {
        return Some(base);
    }
    let mut result = 1;
    // a base of 2 or more passes any bound within 32 steps
    for _ in 0..n.min(32) {
        if result > most / base {
            return None;
        }
        result *= base;
    }
    Some(result)
}

/// `a.count_ones()`.
#[must_use]
pub fn count_ones(a: Val) -> Val {
    unary(a, |a| {
        let (lo, hi) = ones(a);
        Interval::new(IntType::U32, lo, hi)
    })
}

/// The least and greatest number of one bits.
fn ones(a: Interval) -> (i64, i64) {
    let (bits, mask) = (a.bits(), a.ty.mask());
    let least = (bits.value & mask).count_ones();
    let greatest = ((bits.value | !bits.known) & mask).count_ones();
    (least.into(), greatest.into())
}

/// `a.is_power_of_two()`.
#[must_use]
pub fn is_power_of_two(a: Val) -> Val {
    Val::Bool(match a {
        Val::Int(a) => {
            let (least, greatest) = ones(a);
            Tristate::known(least == 1 && greatest == 1, least > 1 || greatest == 0)
        }
        _ => Tristate::Unknown,
    })
}

/// `a.leading_zeros()`.
#[must_use]
pub fn leading_zeros(a: Val) -> Val {
    unary(a, |a| {
        let zeros = |x: i64| i64::from((x as u32).leading_zeros()) - i64::from(32 - a.ty.bits());
        if a.lo < 0 {
            // a negative number has no leading zeros
            return Interval::new(IntType::U32, 0, if a.hi < 0 { 0 } else { 32 });
        }
        Interval::new(IntType::U32, zeros(a.hi), zeros(a.lo))
    })
}

/// `a.trailing_zeros()`.
#[must_use]
pub fn trailing_zeros(a: Val) -> Val {
    unary(a, |a| {
        let (bits, mask) = (a.bits(), a.ty.mask());
        let least = low_ones(bits.known & !bits.value & mask).count_ones().min(a.ty.bits());
        let greatest = (bits.value & mask).trailing_zeros().min(a.ty.bits());
        Interval::new(IntType::U32, least.into(), greatest.into())
    })
}
