//! Codes that are whole numbers: products with them need no decoded rows.

/// Codes that are whole numbers, one after the other from the first byte of a row's codes.
///
/// Element `d` is `code * scale + zero`, with the scale and the zero of group `d / group`
/// ([`KvFormat::scale`](super::KvFormat::scale), [`KvFormat::zero`](super::KvFormat::zero)). Tensor cores multiply such
/// codes as they are, and apply scales to sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LinearCodes {
    /// 4, the even element in the lower half of a byte, or 8.
    pub bits: u32,
    /// Whether codes are in two's complement. Those have no zero.
    pub signed: bool,
    /// Elements that share a scale; 0 for all of a row.
    pub group: i32,
}

impl LinearCodes {
    /// Codes in two's complement.
    #[must_use]
    pub fn signed(bits: u32, group: i32) -> Self {
        LinearCodes { bits, signed: true, group }
    }

    /// Codes from 0 on, with zeros.
    #[must_use]
    pub fn unsigned(bits: u32, group: i32) -> Self {
        LinearCodes { bits, signed: false, group }
    }

    /// Elements of a group of a row of `dim` elements.
    #[must_use]
    pub fn group_of(self, dim: i32) -> i32 {
        if self.group == 0 { dim } else { self.group }
    }

    /// The code of an element.
    pub(super) fn code(self, codes: &[u8], d: usize) -> f32 {
        let code = match self.bits {
            4 => u32::from(codes[d / 2]) >> (d % 2 * 4) & 15,
            _ => u32::from(codes[d]),
        };
        let high = 32 - self.bits;
        if self.signed { ((code << high) as i32 >> high) as f32 } else { code as f32 }
    }
}
