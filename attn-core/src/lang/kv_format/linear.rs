//! Codes that stand for numbers of their own: products with them need no decoded rows.

use crate::bits;

/// Codes that stand for numbers, one after the other from the first byte of a row's codes.
///
/// Element `d` is `value(code) * scale + zero`, with the scale and the zero of group `d / group`
/// ([`KvFormat::scale`](super::KvFormat::scale), [`KvFormat::zero`](super::KvFormat::zero)). Tensor cores multiply the
/// values of codes, which few instructions make, and scales are applied to sums. In groups of less than 16 bytes of
/// codes the scale multiplies values in f16 instead, those of e2m1 times 2^-14.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LinearCodes {
    /// 4, the even element in the lower half of a byte, or 8.
    pub bits: u32,
    /// The numbers that codes stand for.
    pub values: CodeValues,
    /// Elements that share a scale; 0 for all of a row.
    pub group: i32,
}

/// The numbers that codes stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CodeValues {
    /// Whole numbers from 0 on. They alone have zeros.
    Unsigned,
    /// Whole numbers in two's complement.
    Signed,
    /// Floats of four bits: 2 of exponent, 1 of mantissa.
    E2m1,
    /// Floats of eight bits: 4 of exponent, 3 of mantissa.
    E4m3,
    /// Sixteen numbers: [`KvFormat::level`](super::KvFormat::level).
    Levels,
}

impl LinearCodes {
    /// Codes in two's complement.
    #[must_use]
    pub fn signed(bits: u32, group: i32) -> Self {
        LinearCodes { bits, values: CodeValues::Signed, group }
    }

    /// Codes from 0 on, with zeros.
    #[must_use]
    pub fn unsigned(bits: u32, group: i32) -> Self {
        LinearCodes { bits, values: CodeValues::Unsigned, group }
    }

    /// Codes that are floats of four bits.
    #[must_use]
    pub fn e2m1(group: i32) -> Self {
        LinearCodes { bits: 4, values: CodeValues::E2m1, group }
    }

    /// Codes that are floats of eight bits.
    #[must_use]
    pub fn e4m3(group: i32) -> Self {
        LinearCodes { bits: 8, values: CodeValues::E4m3, group }
    }

    /// Codes of four bits that stand for the levels of the format, which are numbers of f16.
    #[must_use]
    pub fn levels(group: i32) -> Self {
        LinearCodes { bits: 4, values: CodeValues::Levels, group }
    }

    /// Whether codes of so many bits can stand for these numbers.
    pub(super) fn has_bits(self) -> bool {
        match self.values {
            CodeValues::Unsigned | CodeValues::Signed => matches!(self.bits, 4 | 8),
            CodeValues::E2m1 | CodeValues::Levels => self.bits == 4,
            CodeValues::E4m3 => self.bits == 8,
        }
    }

    /// Whether groups have a zero.
    #[must_use]
    pub fn has_zero(self) -> bool {
        self.values == CodeValues::Unsigned
    }

    /// Elements of a group of a row of `dim` elements.
    #[must_use]
    pub fn group_of(self, dim: i32) -> i32 {
        if self.group == 0 { dim } else { self.group }
    }

    /// The number that the code of an element stands for.
    pub(super) fn value(self, codes: &[u8], d: usize, level: impl Fn(i32) -> f32) -> f32 {
        let code = match self.bits {
            4 => u32::from(codes[d / 2]) >> (d % 2 * 4) & 15,
            _ => u32::from(codes[d]),
        };
        let high = 32 - self.bits;
        match self.values {
            CodeValues::Unsigned => code as f32,
            CodeValues::Signed => ((code << high) as i32 >> high) as f32,
            CodeValues::E2m1 => bits::e2m1_value(code),
            CodeValues::E4m3 => bits::e4m3_value(code),
            CodeValues::Levels => level(code.cast_signed()),
        }
    }
}
