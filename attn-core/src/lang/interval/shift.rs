//! Shifts. The distance is taken modulo the width, as in a kernel.

use super::{Val, bits::Bits, divide::bounds, integer::Interval};

/// `a << by`.
#[must_use]
pub fn shl(a: Val, by: Val) -> Val {
    shift(a, by, |a, distance| match distance {
        Distance::One(k) => {
            let bits = a.bits();
            let low = (1u32 << k) - 1;
            let (known, value) = (bits.known << k | low, bits.value << k);
            let Interval { lo, hi, .. } = Interval::wrapped(a.ty, a.lo << k, a.hi << k);
            Interval::from_bits(a.ty, Bits { known, value }, lo, hi)
        }
        Distance::Between(j, k) => {
            let (lo, hi) = bounds([a.lo << j, a.lo << k, a.hi << j, a.hi << k]);
            Interval::wrapped(a.ty, lo, hi)
        }
    })
}

/// `a >> by`, arithmetic for signed types.
#[must_use]
pub fn shr(a: Val, by: Val) -> Val {
    shift(a, by, |a, distance| match distance {
        Distance::One(k) => {
            let bits = a.bits();
            let (known, value) = if a.ty.is_signed() {
                ((bits.known as i32 >> k) as u32, (bits.value as i32 >> k) as u32)
            } else {
                (bits.known >> k | !(u32::MAX >> k), bits.value >> k)
            };
            Interval::from_bits(a.ty, Bits { known, value }, a.lo >> k, a.hi >> k)
        }
        Distance::Between(j, k) => {
            let (lo, hi) = bounds([a.lo >> j, a.lo >> k, a.hi >> j, a.hi >> k]);
            Interval::new(a.ty, lo, hi)
        }
    })
}

enum Distance {
    One(u32),
    Between(u32, u32),
}

fn shift(a: Val, by: Val, f: impl FnOnce(Interval, Distance) -> Interval) -> Val {
    let Val::Int(a) = a else { return Val::Any };
    let Val::Int(by) = by else { return Val::Int(Interval::full(a.ty)) };
    let last = i64::from(a.ty.bits() - 1);
    let masked = |x: i64| (x & last) as u32;
    Val::Int(match by.single() {
        Some(by) => f(a, Distance::One(masked(by))),
        None if by.lo >= 0 && by.hi <= last => f(a, Distance::Between(masked(by.lo), masked(by.hi))),
        None => Interval::full(a.ty),
    })
}
