use attn::lang::kv_format::LinearCodes;
use attn::lang::{EncodeRow, KvFormat, Packed, PackedMut};
use attn::{VariantParams, bits, kv_format};

/// MXFP8: eight-bit floats (e4m3) in groups of 32 elements with a power of two as their scale (e8m0).
///
/// `x = e4m3 * 2^(E - 127)`, `E - 127 = floor(log2(max(|x|))) - 8`, as OCP Microscaling Formats 1.0 converts (section
/// 6.3; arXiv 2310.10537); 8 is the largest exponent of e4m3. A row is `dim` bytes of codes, and side data of a byte
/// `E` a group, padded to 4 bytes. Rounding is to nearest even, and magnitudes above 448 times the scale saturate. A
/// group with a NaN or an infinity has `E = 255` and is read as NaN.
#[derive(Clone, Debug, Default, PartialEq, VariantParams)]
pub struct MxFp8;

#[kv_format(name = "mx_fp8")]
impl KvFormat for MxFp8 {
    fn code_bytes(&self, dim: i32) -> i32 {
        dim
    }

    fn side_bytes(&self, dim: i32) -> i32 {
        (dim + 127) / 128 * 4
    }

    fn encode<R: EncodeRow>(&self, x: &R, codes: &mut PackedMut<'_>, side: &mut PackedMut<'_>, _kv_head: i32) {
        for g in 0..(x.dim() + 31) / 32 {
            let first = 32 * g;
            let len = (x.dim() - first).min(32);
            let exponent = bits::exponent(x.max_abs(first, len));
            let stored = if exponent == 255 { 255 } else { (exponent - 8).max(0) as u32 };
            let scale = bits::e8m0_value(stored);
            side.set_u8(g, stored);
            codes.pack8(first, x, first, len, |_, v| bits::e4m3_bits(v / scale));
        }
    }

    fn decode(&self, codes: Packed<'_>, side: Packed<'_>, _kv_head: i32, d: i32) -> [f32; 8] {
        codes.scaled_e4m3(d, side.e8m0(d / 32))
    }

    fn linear(&self) -> Option<LinearCodes> {
        Some(LinearCodes::e4m3(32))
    }

    fn scale(&self, side: Packed<'_>, _kv_head: i32, group: i32) -> f32 {
        side.e8m0(group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{decoded, encoded};

    #[test]
    fn a_row_by_hand() {
        // 1.9 has the exponent 0, so the scale is 2^-8, and 1.9 * 256 saturates; the other group is scaled by 2^-7
        let mut row = [0.0; 40];
        (row[0], row[1], row[2], row[3]) = (1.9, 1.0, -0.5, 0.0625);
        (row[32], row[33], row[34]) = (3.5, 2.0, -2.0);
        let (codes, side) = encoded(&MxFp8, &row);
        assert_eq!(codes[..5], [0x7e, 0x78, 0xf0, 0x58, 0]);
        assert_eq!(codes[32..36], [0x7e, 0x78, 0xf8, 0]);
        assert_eq!(side, [119, 120, 0xff, 0xff], "nothing writes the padding");
        let read = decoded(&MxFp8, &codes, &side, 40);
        assert_eq!((&read[..4], &read[32..35]), (&[1.75, 1.0, -0.5, 0.0625][..], &[3.5, 2.0, -2.0][..]));
    }

    #[test]
    fn the_least_scale_and_no_numbers() {
        let mut row = [0.0; 32];
        row[0] = f32::MIN_POSITIVE;
        let (codes, side) = encoded(&MxFp8, &row);
        assert_eq!((codes[0], side[0]), (0x40, 0), "2^-126 is 2 * 2^-127");
        for bad in [f32::NAN, f32::INFINITY] {
            row[1] = bad;
            let (codes, side) = encoded(&MxFp8, &row);
            assert_eq!(side[0], 255);
            assert!(decoded(&MxFp8, &codes, &side, 32).iter().all(|x| x.is_nan()));
        }
    }
}
