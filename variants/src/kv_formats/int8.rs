use attn::lang::kv_format::LinearCodes;
use attn::lang::{EncodeRow, KvFormat, Packed, PackedMut};
use attn::{VariantParams, kv_format};

/// Eight bits an element, with one f32 scale for each token and head.
///
/// `x = code * scale`, `scale = max(|x|) / 127`, codes from -127 to 127, rounded to nearest even. A row of `dim`
/// elements is `dim` bytes of codes, and 4 bytes of side data that hold the scale. The granularity is that of vLLM's
/// `int8_per_token_head`, and finer than that of LLM.int8() (arXiv 2208.07339), which scales whole tokens. A row with a
/// NaN or an infinity is read as NaN.
#[derive(Clone, Debug, Default, PartialEq, VariantParams)]
pub struct Int8;

#[kv_format(name = "int8")]
impl KvFormat for Int8 {
    fn code_bytes(&self, dim: i32) -> i32 {
        dim
    }

    fn side_bytes(&self, _dim: i32) -> i32 {
        4
    }

    fn encode<R: EncodeRow>(&self, x: &R, codes: &mut PackedMut<'_>, side: &mut PackedMut<'_>, _kv_head: i32) {
        let scale = x.max_abs(0, x.dim()) / 127.0;
        side.set_f32(0, scale);
        // a scale below 2^-126 is rounded so coarsely that a quotient may leave the range
        codes.pack8(0, x, 0, x.dim(), |_, v| {
            if scale == 0.0 { 0 } else { (v / scale).round_ties_even().clamp(-127.0, 127.0) as i32 as u32 }
        });
    }

    fn decode(&self, codes: Packed<'_>, side: Packed<'_>, _kv_head: i32, d: i32) -> [f32; 8] {
        let (words, scale) = (codes.words2(d), side.f32(0));
        let mut out = [0.0; 8];
        for i in 0..8 {
            // shifts left, then right, extend the sign
            let code = (words[(i / 4) as usize] << (24 - 8 * (i % 4)) as u32) as i32 >> 24;
            out[i as usize] = code as f32 * scale;
        }
        out
    }

    fn linear(&self) -> Option<LinearCodes> {
        Some(LinearCodes::signed(8, 0))
    }

    fn scale(&self, side: Packed<'_>, _kv_head: i32, _group: i32) -> f32 {
        side.f32(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{decoded, encoded};

    #[test]
    fn a_row_by_hand() {
        // the scale is 1
        let row = [127.0, -127.0, 0.0, -1.0, 2.5, 3.5, -0.4, 64.0];
        let (codes, side) = encoded(&Int8, &row);
        assert_eq!(codes, [127, 0x81, 0, 0xff, 2, 4, 0, 64], "ties go to even codes");
        assert_eq!(side, [0, 0, 0x80, 0x3f]);
        assert_eq!(decoded(&Int8, &codes, &side, 8), [127.0, -127.0, 0.0, -1.0, 2.0, 4.0, 0.0, 64.0]);
    }

    #[test]
    fn zeros_tiny_rows_and_nan() {
        assert_eq!(encoded(&Int8, &[0.0; 8]), (vec![0; 8], vec![0; 4]));
        // max(|x|) / 127 is 1.57 units of the last place, which rounds to 2: or 143 units, to 1
        let (codes, side) = encoded(&Int8, &[f32::from_bits(190), 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -f32::from_bits(190)]);
        assert_eq!((codes[0], codes[7], &side[..]), (127, 0x81, &[1, 0, 0, 0][..]));
        for bad in [f32::NAN, f32::INFINITY] {
            let (codes, side) = encoded(&Int8, &[1.0, bad, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
            assert!(decoded(&Int8, &codes, &side, 8).iter().all(|x| x.is_nan()));
        }
    }
}
