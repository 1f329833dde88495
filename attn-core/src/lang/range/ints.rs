//! An integer of which bounds and some bits are known.

/// The integer types that are followed. `u64` is not: it is [`Val::Any`](super::Val).
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
    /// Width.
    #[inline]
    pub(super) fn bits(self) -> u32 {
        if self == IntType::U8 { 8 } else { 32 }
    }
    #[inline]
    pub(super) fn is_signed(self) -> bool {
        self == IntType::I32
    }
    /// Bits of the 32 that the type has.
    #[inline]
    pub(super) fn mask(self) -> u32 {
        if self == IntType::U8 { 0xff } else { u32::MAX }
    }
}

/// All integers of a type from `lo` to `hi` whose bits are as known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ints {
    /// Their type.
    pub ty: IntType,
    /// The least.
    pub lo: i64,
    /// The greatest.
    pub hi: i64,
    /// Bits known beyond those that the bounds tell.
    pub(super) known: u32,
    /// Their values; 0 where a bit is not in `known`.
    pub(super) value: u32,
}

impl Ints {
    #[inline]
    pub(super) fn new(ty: IntType, lo: i64, hi: i64) -> Ints {
        Ints { ty, lo, hi, known: 0, value: 0 }
    }

    #[inline]
    pub(super) fn full(ty: IntType) -> Ints {
        Ints::new(ty, ty.min(), ty.max())
    }

    /// What integers from `lo` to `hi` become in the type.
    #[inline]
    pub(super) fn wrapped(ty: IntType, lo: i64, hi: i64) -> Ints {
        // both in one period of the type: all wrap alike
        let period = |x: i64| x.wrapping_sub(ty.min()) >> ty.bits();
        if period(lo) == period(hi) {
            let shift = period(lo) << ty.bits();
            Ints::new(ty, lo.wrapping_sub(shift), hi.wrapping_sub(shift))
        } else {
            Ints::full(ty)
        }
    }

    /// The same with more bits known, if any are.
    #[inline]
    pub(super) fn with_bits(self, known: u32, value: u32) -> Ints {
        Ints { known, value: value & known, ..self }
    }

    /// As integers of another type.
    #[inline]
    pub(super) fn cast(self, ty: IntType) -> Ints {
        if ty == self.ty {
            return self;
        }
        // bits of a u8 beyond its own are those that its bounds tell
        let mask = ty.mask() & self.ty.mask();
        Ints::wrapped(ty, self.lo, self.hi).with_bits(self.known & mask, self.value)
    }

    /// The value, if it is one.
    #[inline]
    pub(super) fn single(self) -> Option<i64> {
        (self.lo == self.hi).then_some(self.lo)
    }

    /// Whether 0 is among them, going by the bounds.
    pub(super) fn spans_zero(self) -> bool {
        self.lo <= 0 && self.hi >= 0
    }
}
