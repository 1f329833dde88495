//! Quotients and remainders. If the divisor may be 0, the result is the whole range of the type.

use super::{Val, integer::Interval, value::binary};

/// `a / b`, towards zero.
#[must_use]
pub fn div(a: Val, b: Val) -> Val {
    binary(a, b, |a, b| quotient(a, b, |x, y| x / y))
}

/// `a.div_euclid(b)`.
#[must_use]
pub fn div_euclid(a: Val, b: Val) -> Val {
    binary(a, b, |a, b| quotient(a, b, i64::div_euclid))
}

/// Both quotients are monotone in `a` and in `b`, if `b` has one sign: the extremes are at the corners.
fn quotient(a: Interval, b: Interval, f: impl Fn(i64, i64) -> i64) -> Interval {
    if b.spans_zero() {
        return Interval::full(a.ty);
    }
    let corners = [f(a.lo, b.lo), f(a.lo, b.hi), f(a.hi, b.lo), f(a.hi, b.hi)];
    let (lo, hi) = bounds(corners);
    // `i32::MIN / -1` wraps
    Interval::wrapped(a.ty, lo, hi)
}

pub(super) fn bounds(of: [i64; 4]) -> (i64, i64) {
    let [a, b, c, d] = of;
    (a.min(b).min(c.min(d)), a.max(b).max(c.max(d)))
}

/// `a % b`, with the sign of `a`.
#[must_use]
pub fn rem(a: Val, b: Val) -> Val {
    binary(a, b, |a, b| {
        if b.spans_zero() {
            return Interval::full(a.ty);
        }
        let (least, greatest) = magnitudes(b);
        if least == greatest && a.lo / least == a.hi / least {
            let whole = a.lo / least * least;
            return Interval::new(a.ty, a.lo - whole, a.hi - whole);
        }
        if a.lo > -least && a.hi < least {
            return a;
        }
        let lo = if a.lo >= 0 { 0 } else { a.lo.max(1 - greatest) };
        let hi = if a.hi <= 0 { 0 } else { a.hi.min(greatest - 1) };
        low_part(Interval::new(a.ty, lo, hi), a, least, greatest)
    })
}

/// `a.rem_euclid(b)`, never negative.
#[must_use]
pub fn rem_euclid(a: Val, b: Val) -> Val {
    binary(a, b, |a, b| {
        if b.spans_zero() {
            return Interval::full(a.ty);
        }
        let (least, greatest) = magnitudes(b);
        if least == greatest && a.lo.div_euclid(least) == a.hi.div_euclid(least) {
            let whole = a.lo.div_euclid(least) * least;
            return Interval::new(a.ty, a.lo - whole, a.hi - whole);
        }
        if a.lo >= 0 && a.hi < least {
            return a;
        }
        let hi = if a.lo >= 0 { a.hi.min(greatest - 1) } else { greatest - 1 };
        low_part(Interval::new(a.ty, 0, hi), a, least, greatest)
    })
}

/// The remainder of a non-negative `a` by a power of two has the low bits of `a`.
fn low_part(remainder: Interval, a: Interval, least: i64, greatest: i64) -> Interval {
    if least == greatest && least & (least - 1) == 0 && a.lo >= 0 {
        let low = (least - 1) as u32;
        remainder.with_bits(a.known & low, a.value & low)
    } else {
        remainder
    }
}

/// The least and greatest magnitude of a divisor that is not 0.
fn magnitudes(b: Interval) -> (i64, i64) {
    if b.lo > 0 { (b.lo, b.hi) } else { (-b.hi, -b.lo) }
}
