//! Quotients and remainders. A divisor that may be 0 leaves everything open.

use super::{Val, ints::Ints, value::binary};

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

/// Both quotients grow with `a` (fall, where `b` is negative), and run one way in `b`: the extremes are at corners.
fn quotient(a: Ints, b: Ints, f: impl Fn(i64, i64) -> i64) -> Ints {
    if b.spans_zero() {
        return Ints::full(a.ty);
    }
    let corners = [f(a.lo, b.lo), f(a.lo, b.hi), f(a.hi, b.lo), f(a.hi, b.hi)];
    let (lo, hi) = bounds(corners);
    // the least i32 by -1
    Ints::wrapped(a.ty, lo, hi)
}

pub(super) fn bounds(of: [i64; 4]) -> (i64, i64) {
    let [a, b, c, d] = of;
    (a.min(b).min(c.min(d)), a.max(b).max(c.max(d)))
}

/// `a % b`, of the sign of `a`.
#[must_use]
pub fn rem(a: Val, b: Val) -> Val {
    binary(a, b, |a, b| {
        if b.spans_zero() {
            return Ints::full(a.ty);
        }
        let (least, greatest) = magnitudes(b);
        if least == greatest && a.lo / least == a.hi / least {
            let whole = a.lo / least * least;
            return Ints::new(a.ty, a.lo - whole, a.hi - whole);
        }
        if a.lo > -least && a.hi < least {
            return a;
        }
        let lo = if a.lo >= 0 { 0 } else { a.lo.max(1 - greatest) };
        let hi = if a.hi <= 0 { 0 } else { a.hi.min(greatest - 1) };
        low_part(Ints::new(a.ty, lo, hi), a, least, greatest)
    })
}

/// `a.rem_euclid(b)`, never negative.
#[must_use]
pub fn rem_euclid(a: Val, b: Val) -> Val {
    binary(a, b, |a, b| {
        if b.spans_zero() {
            return Ints::full(a.ty);
        }
        let (least, greatest) = magnitudes(b);
        if least == greatest && a.lo.div_euclid(least) == a.hi.div_euclid(least) {
            let whole = a.lo.div_euclid(least) * least;
            return Ints::new(a.ty, a.lo - whole, a.hi - whole);
        }
        if a.lo >= 0 && a.hi < least {
            return a;
        }
        let hi = if a.lo >= 0 { a.hi.min(greatest - 1) } else { greatest - 1 };
        low_part(Ints::new(a.ty, 0, hi), a, least, greatest)
    })
}

/// A remainder of what is not negative, by a power of two, is the low bits.
fn low_part(remainder: Ints, a: Ints, least: i64, greatest: i64) -> Ints {
    if least == greatest && least & (least - 1) == 0 && a.lo >= 0 {
        let low = (least - 1) as u32;
        remainder.with_bits(a.known & low, a.value & low)
    } else {
        remainder
    }
}

/// The least and the greatest magnitude of a divisor that is not 0.
fn magnitudes(b: Ints) -> (i64, i64) {
    if b.lo > 0 { (b.lo, b.hi) } else { (-b.hi, -b.lo) }
}
