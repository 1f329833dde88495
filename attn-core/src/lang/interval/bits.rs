//! Known bits, and their conversion from and to intervals.

use super::{IntType, Interval};

/// The known bits of a value, sign-extended to 32 bits, and their values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bits {
    pub(super) known: u32,
    pub(super) value: u32,
}

impl Interval {
    /// All known bits: those above the highest bit in which the bounds differ, and those tracked beside the interval.
    #[inline]
    pub(super) fn bits(self) -> Bits {
        let (lo, hi) = (self.lo as u32, self.hi as u32);
        let prefix = !smear(lo ^ hi);
        Bits { known: prefix | self.known, value: (lo & prefix) | (self.value & !prefix) }
    }

    /// The integers in `lo..=hi` that have these bits.
    pub(super) fn from_bits(ty: IntType, bits: Bits, lo: i64, hi: i64) -> Interval {
        let mask = ty.mask();
        let (known, value) = (bits.known & mask, bits.value & bits.known & mask);
        let (least, greatest) = if ty.is_signed() {
            let sign = 1 << 31;
            let (low, high) = (value | (!known & sign), value | (!known & !sign));
            (i64::from(low as i32), i64::from(high as i32))
        } else {
            (i64::from(value), i64::from(value | (!known & mask)))
        };
        Interval::new(ty, lo.max(least), hi.min(greatest)).with_bits(known, value)
    }
}

/// Sets all bits below the highest one.
#[inline]
pub(super) fn smear(x: u32) -> u32 {
    if x == 0 { 0 } else { u32::MAX >> x.leading_zeros() }
}

/// The mask of trailing ones.
#[inline]
pub(super) fn low_ones(x: u32) -> u32 {
    let zeros = !x;
    (zeros & zeros.wrapping_neg()).wrapping_sub(1)
}
