use attn::lang::{EncodeRow, KvFormat, Packed, PackedMut};
use attn::{VariantParams, bits, kv_format};

/// Sixteen bits an element as bf16, for pairs such as `bf16 / int4`.
///
/// `x = bf16`, rounded to nearest even. A row is `2 * dim` bytes of codes, without side data: the same bytes as a
/// tensor of bf16. bf16 is the format of Google's TPUs (arXiv 1905.12322).
#[derive(Clone, Debug, Default, PartialEq, VariantParams)]
pub struct Bf16;

/// Sixteen bits an element as f16, for pairs such as `f16 / int4`.
///
/// `x = f16`, rounded to nearest even; beyond 65504 it is an infinity. A row is `2 * dim` bytes of codes, without side
/// data: the same bytes as a tensor of f16, the binary16 of IEEE 754, which cuts the memory of keys and values of mixed
/// precision (arXiv 1710.03740) no further.
#[derive(Clone, Debug, Default, PartialEq, VariantParams)]
pub struct F16;

#[kv_format(name = "bf16")]
impl KvFormat for Bf16 {
    fn code_bytes(&self, dim: i32) -> i32 {
        2 * dim
    }

    fn encode<R: EncodeRow>(&self, x: &R, codes: &mut PackedMut<'_>, _side: &mut PackedMut<'_>, _kv_head: i32) {
        codes.pack16(0, x, 0, x.dim(), |_, v| bits::bf16_bits(v));
    }

    fn decode(&self, codes: Packed<'_>, _side: Packed<'_>, _kv_head: i32, d: i32) -> [f32; 8] {
        let (low, high) = (codes.words2(2 * d), codes.words2(2 * d + 8));
        let mut out = [0.0; 8];
        for i in 0..4 {
            let shift = (16 * (i % 2)) as u32;
            out[i as usize] = bits::bf16_value(low[(i / 2) as usize] >> shift);
            out[(i + 4) as usize] = bits::bf16_value(high[(i / 2) as usize] >> shift);
        }
        out
    }
}

#[kv_format(name = "f16")]
impl KvFormat for F16 {
    fn code_bytes(&self, dim: i32) -> i32 {
        2 * dim
    }

    fn encode<R: EncodeRow>(&self, x: &R, codes: &mut PackedMut<'_>, _side: &mut PackedMut<'_>, _kv_head: i32) {
        codes.pack16(0, x, 0, x.dim(), |_, v| bits::f16_bits(v));
    }

    fn decode(&self, codes: Packed<'_>, _side: Packed<'_>, _kv_head: i32, d: i32) -> [f32; 8] {
        let (low, high) = (codes.words2(2 * d), codes.words2(2 * d + 8));
        let mut out = [0.0; 8];
        for i in 0..4 {
            let shift = (16 * (i % 2)) as u32;
            out[i as usize] = bits::f16_value(low[(i / 2) as usize] >> shift);
            out[(i + 4) as usize] = bits::f16_value(high[(i / 2) as usize] >> shift);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{decoded, encoded};

    #[test]
    fn rows_by_hand() {
        let row = [1.0, -2.0, 0.1, 65536.0, 0.0, f32::NAN, -0.5, 1.0 / 3.0];
        let (codes, _) = encoded(&Bf16, &row);
        let want = [0x3f80u16, 0xc000, 0x3dcd, 0x4780, 0, 0x7fc0, 0xbf00, 0x3eab];
        assert_eq!(codes, want.map(u16::to_le_bytes).concat());
        assert_eq!(decoded(&Bf16, &codes, &[], 8)[..4], [1.0, -2.0, 0.100_097_656, 65536.0]);
        let (codes, _) = encoded(&F16, &row);
        let want = [0x3c00u16, 0xc000, 0x2e66, 0x7c00, 0, 0x7e00, 0xb800, 0x3555];
        assert_eq!(codes, want.map(u16::to_le_bytes).concat());
        assert_eq!(decoded(&F16, &codes, &[], 8)[..4], [1.0, -2.0, 0.099_975_586, f32::INFINITY]);
    }
}
