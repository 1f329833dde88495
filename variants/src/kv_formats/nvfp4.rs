use attn::lang::kv_format::LinearCodes;
use attn::lang::{EncodeRow, KvFormat, Packed, PackedMut};
use attn::{VariantParams, bits, kv_format};

/// NVFP4: four-bit floats (e2m1) in groups of 16 elements with an e4m3 scale.
///
/// `x = e2m1 * scale`, `scale = e4m3(max(|x|) / 6)`, and the f32 scale of the whole tensor is the scale of a run
/// (`KvScales`), best `max(|x|) / (6 * 448)` of the tensor. A row is `dim / 2` bytes of codes, the even element in the
/// lower half of a byte, and side data of a scale a group, padded to 4 bytes: as NVIDIA specifies the format (arXiv
/// 2509.25149) and FlashInfer stores it (`nvfp4_quantize_append_paged_kv_cache`, scales in the order of elements).
/// Rounding is to nearest even and saturates: an infinity is read as 6 * 448. A group with a NaN is read as NaN.
#[derive(Clone, Debug, Default, PartialEq, VariantParams)]
pub struct Nvfp4;

#[kv_format(name = "nvfp4")]
impl KvFormat for Nvfp4 {
    fn code_bytes(&self, dim: i32) -> i32 {
        dim / 2
    }

    fn side_bytes(&self, dim: i32) -> i32 {
        (dim + 63) / 64 * 4
    }

    fn encode<R: EncodeRow>(&self, x: &R, codes: &mut PackedMut<'_>, side: &mut PackedMut<'_>, _kv_head: i32) {
        for g in 0..(x.dim() + 15) / 16 {
            let first = 16 * g;
            let len = (x.dim() - first).min(16);
            let scale = bits::e4m3_round(x.max_abs(first, len) / 6.0);
            side.set_e4m3(g, scale);
            codes.pack4(8 * g, x, first, len, |_, v| if scale == 0.0 { 0 } else { bits::e2m1_bits(v / scale) });
        }
    }

    fn decode(&self, codes: Packed<'_>, side: Packed<'_>, _kv_head: i32, d: i32) -> [f32; 8] {
        let (word, scale) = (codes.u32(d / 2), side.e4m3(d / 16));
        let mut out = [0.0; 8];
        for i in 0..8 {
            out[i as usize] = bits::e2m1_value(word >> (4 * i) as u32) * scale;
        }
        out
    }

    fn linear(&self) -> Option<LinearCodes> {
        Some(LinearCodes::e2m1(16))
    }

    fn scale(&self, side: Packed<'_>, _kv_head: i32, group: i32) -> f32 {
        side.e4m3(group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{decoded, encoded};

    #[test]
    fn a_row_by_hand() {
        // the scales are 1 and, of the short group, 2
        let mut row = vec![6.0, -4.0, 0.5, 0.25, 0.75, 2.5, -5.0, 1.5, 3.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -0.0];
        row.extend([12.0, -12.0, 1.0, -1.0, 3.0, 5.0, 7.0, 0.4]);
        let (codes, side) = encoded(&Nvfp4, &row);
        let want = [0xe7, 0x01, 0x42, 0x3e, 0x05, 0, 0, 0x80, 0xf7, 0x91, 0x43, 0x06];
        assert_eq!(codes, want, "1 is code 2; ties go to even codes");
        assert_eq!(side, [0x38, 0x40, 0xff, 0xff], "nothing writes the padding");
        let read = decoded(&Nvfp4, &codes, &side, 24);
        assert_eq!(read[..9], [6.0, -4.0, 0.5, 0.0, 1.0, 2.0, -4.0, 1.5, 3.0]);
        assert_eq!(read[16..], [12.0, -12.0, 1.0, -1.0, 3.0, 4.0, 8.0, 0.0]);
    }

    #[test]
    fn large_small_and_no_numbers() {
        let mut row = [0.0; 16];
        row[0] = f32::INFINITY;
        let (codes, side) = encoded(&Nvfp4, &row);
        assert_eq!(decoded(&Nvfp4, &codes, &side, 16)[0], 6.0 * 448.0);
        row[0] = f32::NAN;
        let (codes, side) = encoded(&Nvfp4, &row);
        assert!(decoded(&Nvfp4, &codes, &side, 16).iter().all(|x| x.is_nan()));
        // a sixth of it is half of the least e4m3, which rounds to 0
        row[0] = 6.0 / 1024.0;
        assert_eq!(encoded(&Nvfp4, &row), (vec![0; 8], vec![0, 0xff, 0xff, 0xff]));
    }
}
