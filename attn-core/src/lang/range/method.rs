//! Methods of integers.

use super::{
    Val,
    bits::low_ones,
    ints::{IntType, Ints},
    value::{binary, unary},
};
use crate::lang::Tri;

/// `a.min(b)`.
#[must_use]
pub fn min(a: Val, b: Val) -> Val {
    binary(a, b, |a, b| Ints::new(a.ty, a.lo.min(b.lo), a.hi.min(b.hi)))
}

/// `a.max(b)`.
#[must_use]
pub fn max(a: Val, b: Val) -> Val {
    binary(a, b, |a, b| Ints::new(a.ty, a.lo.max(b.lo), a.hi.max(b.hi)))
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
        Ints::wrapped(a.ty, lo, hi)
    })
}

/// `a.unsigned_abs()`.
#[must_use]
pub fn unsigned_abs(a: Val) -> Val {
    unary(a, |a| {
        let (lo, hi) = magnitude(a.lo, a.hi);
        Ints::new(unsigned(a.ty), lo, hi)
    })
}

/// `a.abs_diff(b)`.
#[must_use]
pub fn abs_diff(a: Val, b: Val) -> Val {
    binary(a, b, |a, b| {
        let (lo, hi) = magnitude(a.lo - b.hi, a.hi - b.lo);
        Ints::new(unsigned(a.ty), lo, hi)
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
    unary(a, |a| Ints::new(a.ty, a.lo.signum(), a.hi.signum()))
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

fn saturated(ty: IntType, lo: i64, hi: i64) -> Ints {
    let fit = |x: i64| x.clamp(ty.min(), ty.max());
    Ints::new(ty, fit(lo), fit(hi))
}

/// `a.pow(n)`; of a base that may be negative nothing is known.
#[must_use]
pub fn pow(a: Val, n: Val) -> Val {
    let Val::Int(a) = a else { return Val::Any };
    let Val::Int(n) = n else { return Val::Int(Ints::full(a.ty)) };
    if a.lo < 0 || n.lo < 0 {
        return Val::Int(Ints::full(a.ty));
    }
    // 0 to the 0 is 1
    let lo = if a.lo == 0 { Some(0) } else { power(a.lo, n.lo, a.ty.max()) };
    let hi = power(a.hi.max(1), n.hi, a.ty.max());
    Val::Int(match (lo, hi) {
        (Some(lo), Some(hi)) => Ints::new(a.ty, lo, hi),
        _ => Ints::full(a.ty),
    })
}

/// `base^n`, of what is positive, if it is at most `most`.
fn power(base: i64, n: i64, most: i64) -> Option<i64> {
    if base <= 1 {
        return Some(base);
    }
    let mut result = 1;
    // at 2 or more, 32 steps pass any bound
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
        Ints::new(IntType::U32, lo, hi)
    })
}

/// How many ones there are, at least and at most.
fn ones(a: Ints) -> (i64, i64) {
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
            Tri::known(least == 1 && greatest == 1, least > 1 || greatest == 0)
        }
        _ => Tri::Unknown,
    })
}

/// `a.leading_zeros()`.
#[must_use]
pub fn leading_zeros(a: Val) -> Val {
    unary(a, |a| {
        let zeros = |x: i64| i64::from((x as u32).leading_zeros()) - i64::from(32 - a.ty.bits());
        if a.lo < 0 {
            // a negative one has none
            return Ints::new(IntType::U32, 0, if a.hi < 0 { 0 } else { 32 });
        }
        Ints::new(IntType::U32, zeros(a.hi), zeros(a.lo))
    })
}

/// `a.trailing_zeros()`.
#[must_use]
pub fn trailing_zeros(a: Val) -> Val {
    unary(a, |a| {
        let (bits, mask) = (a.bits(), a.ty.mask());
        let least = low_ones(bits.known & !bits.value & mask).count_ones().min(a.ty.bits());
        let greatest = (bits.value & mask).trailing_zeros().min(a.ty.bits());
        Ints::new(IntType::U32, least.into(), greatest.into())
    })
}
