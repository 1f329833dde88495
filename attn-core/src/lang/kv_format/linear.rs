//! Codes that are whole numbers: products with them need no decoded rows.

use super::ErasedKvFormat;

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
    fn code(self, codes: &[u8], d: usize) -> f32 {
        let code = match self.bits {
            4 => u32::from(codes[d / 2]) >> (d % 2 * 4) & 15,
            _ => u32::from(codes[d]),
        };
        let high = 32 - self.bits;
        if self.signed { ((code << high) as i32 >> high) as f32 } else { code as f32 }
    }

    /// Why a format of rows of `dim` elements does not have these codes; `None` if it does. A row of arbitrary bytes is
    /// decoded both ways.
    pub(super) fn mistake(self, format: &dyn ErasedKvFormat, dim: i32) -> Option<String> {
        let (Self { bits, .. }, group) = (self, self.group_of(dim));
        let [code_bytes, side_bytes] = [format.code_bytes(dim), format.side_bytes(dim)].map(|n| n.max(0) as usize);
        if !matches!(bits, 4 | 8) || group <= 0 || dim % group != 0 || code_bytes * 8 < dim as usize * bits as usize {
            return Some(format!(
                "`linear` says codes of {bits} bits in groups of {group}, and a row has {code_bytes} bytes of codes; there \
                are codes of 4 and of 8 bits, and whole groups"
            ));
        }
        let bytes = |count: usize, seed: usize| (0..count).map(|i| ((i + seed) * 97 % 251) as u8).collect::<Vec<u8>>();
        let (codes, side) = (bytes(code_bytes, 3), bytes(side_bytes, 40));
        let mut row = vec![0.0; dim as usize];
        format.decode_row(&codes, &side, 0, &mut row);
        let differs = |d: usize| {
            let (g, x) = (d as i32 / group, row[d]);
            let product = self.code(&codes, d) * format.scale_of(&side, 0, g);
            let zero = if self.signed { 0.0 } else { format.zero_of(&side, 0, g) };
            // one of the two may be fused
            let near = (x - (product + zero)).abs() <= 1e-5 * (product.abs() + zero.abs());
            let neither = !x.is_finite() && !(product + zero).is_finite();
            (!(near || neither)).then(|| format!("element {d} is {x} by `decode`, and {} by `linear`", product + zero))
        };
        (0..row.len()).find_map(differs)
    }
}
