//! Between intervals and known bits.

use super::{IntType, Ints};

/// All 32 bits of a value, the type's sign extended: which are known, and their values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bits {
    pub(super) known: u32,
    pub(super) value: u32,
}

impl Ints {
    /// All bits that are known: those above the highest in which the bounds differ, and those known besides.
    #[inline]
    pub(super) fn bits(self) -> Bits {
        let (lo, hi) = (self.lo as u32, self.hi as u32);
        let prefix = !smear(lo ^ hi);
        Bits { known: prefix | self.known, value: (lo & prefix) | (self.value & !prefix) }
    }

    /// The integers from `lo` to `hi` with these bits.
    pub(super) fn from_bits(ty: IntType, bits: Bits, lo: i64, hi: i64) -> Ints {
        let mask = ty.mask();
        let (known, value) = (bits.known & mask, bits.value & bits.known & mask);
        let (least, greatest) = if ty.is_signed() {
            let sign = 1 << 31;
            let (low, high) = (value | (!known & sign), value | (!known & !sign));
            (i64::from(low as i32), i64::from(high as i32))
        } else {
            (i64::from(value), i64::from(value | (!known & mask)))
        };
        Ints::new(ty, lo.max(least), hi.min(greatest)).with_bits(known, value)
    }
}

/// All ones from the highest one on.
#[inline]
pub(super) fn smear(x: u32) -> u32 {
    if x == 0 { 0 } else { u32::MAX >> x.leading_zeros() }
}

/// A mask of the ones at the low end.
#[inline]
pub(super) fn low_ones(x: u32) -> u32 {
    let zeros = !x;
    (zeros & zeros.wrapping_neg()).wrapping_sub(1)
}
