//! Integers as intervals with known bits.

/// The integer types that are tracked. `u64` is not: it is [`Val::Any`](super::Val).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum IntType {
    I32,
    U32,
    U8,
}

impl IntType {
    #[inline]
    pub(super) fn min(self) -> i64 {
        match self {
            IntType::I32 => i64::from(i32::MIN),
            IntType::U32 | IntType::U8 => 0,
        }
    }
    #[inline]
    pub(super) fn max(self) -> i64 {
        match self {
            IntType::I32 => i64::from(i32::MAX),
            IntType::U32 => i64::from(u32::MAX),
            IntType::U8 => i64::from(u8::MAX),
        }
    }
    /// Width in bits.
    #[inline]
    pub(super) fn bits(self) -> u32 {
        if self == IntType::U8 { 8 } else { 32 }
    }
    #[inline]
    pub(super) fn is_signed(self) -> bool {
        self == IntType::I32
    }
    /// The mask of the type's bits within 32.
    #[inline]
    pub(super) fn mask(self) -> u32 {
        if self == IntType::U8 { 0xff } else { u32::MAX }
    }
}

/// All integers of a type in `lo..=hi` that have the known bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// Their type.
    pub ty: IntType,
    /// Lower bound, inclusive.
    pub lo: i64,
    /// Upper bound, inclusive.
    pub hi: i64,
    /// Known bits, beside those that the bounds imply.
    pub(super) known: u32,
    /// Their values; 0 where a bit is not in `known`.
    pub(super) value: u32,
}

impl Interval {
    #[inline]
    pub(super) fn new(ty: IntType, lo: i64, hi: i64) -> Interval {
        Interval { ty, lo, hi, known: 0, value: 0 }
    }

    #[inline]
    pub(super) fn full(ty: IntType) -> Interval {
        Interval::new(ty, ty.min(), ty.max())
    }

    /// The integers in `lo..=hi`, wrapped into the type.
    #[inline]
    pub(super) fn wrapped(ty: IntType, lo: i64, hi: i64) -> Interval {
        // both bounds wrap the same number of times
        let period = |x: i64| x.wrapping_sub(ty.min()) >> ty.bits();
        if period(lo) == period(hi) {
            let shift = period(lo) << ty.bits();
            Interval::new(ty, lo.wrapping_sub(shift), hi.wrapping_sub(shift))
        } else {
            Interval::full(ty)
        }
    }

    /// The same interval with these known bits.
    #[inline]
    pub(super) fn with_bits(self, known: u32, value: u32) -> Interval {
        Interval { known, value: value & known, ..self }
    }

    /// The integers cast to another type.
    #[inline]
    pub(super) fn cast(self, ty: IntType) -> Interval {
        if ty == self.ty {
            return self;
        }
        // the upper bits of a u8 are implied by its bounds
        let mask = ty.mask() & self.ty.mask();
        Interval::wrapped(ty, self.lo, self.hi).with_bits(self.known & mask, self.value)
    }

    /// The value, if the interval has only one.
    #[inline]
    pub(super) fn single(self) -> Option<i64> {
        (self.lo == self.hi).then_some(self.lo)
    }

    /// Whether the interval contains 0.
    pub(super) fn spans_zero(self) -> bool {
        self.lo <= 0 && self.hi >= 0
    }
}
