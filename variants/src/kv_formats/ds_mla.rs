use attn::lang::{EncodeRow, KvFormat, Packed, PackedMut};
use attn::{VariantParams, bits, kv_format};

/// DeepSeek's FP8 cache of latent attention (MLA): records of 656 bytes for rows of 576 elements.
///
/// The first 512 elements, which are the values too, are e4m3 in four groups of 128 with f32 scales that are powers of
/// two: `x = e4m3 * scale`, `scale = 2^ceil(log2(max(max(|x|) / 448, 1e-4)))`. The last 64, the part with RoPE, are
/// bf16. A record is 512 bytes of e4m3, 16 of scales, 128 of bf16, without side data: the cache of FlashMLA
/// (`V32_FP8Sparse` in its tests) and of vLLM (`fp8_ds_mla`) for DeepSeek V3.2 (the architecture: arXiv 2412.19437).
/// The power is exact; theirs comes from `log2` in f32, which is half of it where a quotient is within 1e-6 above a
/// power of two. A group with a NaN or an infinity is read as NaN.
#[derive(Clone, Debug, Default, PartialEq, VariantParams)]
pub struct DsMla;

#[kv_format(name = "ds_mla")]
impl KvFormat for DsMla {
    fn code_bytes(&self, dim: i32) -> i32 {
        if dim == 576 { 656 } else { 0 }
    }

    fn encode<R: EncodeRow>(&self, x: &R, codes: &mut PackedMut<'_>, _side: &mut PackedMut<'_>, _kv_head: i32) {
        for g in 0..4 {
            let least = x.max_abs(128 * g, 128) / 448.0;
            let scale = bits::pow2_ceil(if least < 1e-4 { 1e-4 } else { least });
            codes.set_f32(512 + 4 * g, scale);
            codes.pack8(128 * g, x, 128 * g, 128, |_, v| bits::e4m3_bits(v / scale));
        }
        codes.pack16(528, x, 512, 64, |_, v| bits::bf16_bits(v));
    }

    fn decode(&self, codes: Packed<'_>, _side: Packed<'_>, _kv_head: i32, d: i32) -> [f32; 8] {
        if d < 512 {
            return codes.scaled_e4m3(d, codes.f32(512 + d / 128 * 4));
        }
        let mut out = [0.0; 8];
        let at = 528 + 2 * (d - 512);
        let (low, high) = (codes.words2(at), codes.words2(at + 8));
        for i in 0..4 {
            let shift = (16 * (i % 2)) as u32;
            out[i as usize] = bits::bf16_value(low[(i / 2) as usize] >> shift);
            out[(i + 4) as usize] = bits::bf16_value(high[(i / 2) as usize] >> shift);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{decoded, encoded};

    #[test]
    fn a_record_by_hand() {
        assert_eq!((DsMla.code_bytes(576), DsMla.side_bytes(576), DsMla.code_bytes(512)), (656, 0, 0));
        let mut row = [0.0; 576];
        // the scales: 448 / 448 = 1, a little more than 1 gives 2, the least, and 3 gives 4
        (row[0], row[1], row[128], row[384]) = (448.0, -1.0, 450.0, 3.0 * 448.0);
        (row[512], row[575]) = (1.0, -2.0);
        let (codes, side) = encoded(&DsMla, &row);
        assert!(side.is_empty() && codes.len() == 656);
        assert_eq!((&codes[..3], codes[128], codes[256], codes[384]), (&[0x7e, 0xb8, 0][..], 0x76, 0, 0x7a));
        let scales = [1.0, 2.0, 2f32.powi(-13), 4.0];
        assert_eq!(codes[512..528], scales.map(f32::to_le_bytes).concat(), "1e-4 lies between 2^-14 and 2^-13");
        assert_eq!((&codes[528..532], &codes[654..]), (&[0x80, 0x3f, 0, 0][..], &[0x00, 0xc0][..]));
        let read = decoded(&DsMla, &codes, &side, 576);
        assert_eq!((read[0], read[1], read[128], read[384]), (448.0, -1.0, 448.0, 1280.0));
        assert_eq!((read[512], read[575]), (1.0, -2.0));
        assert_eq!(decoded(&DsMla, &codes, &side, 512), read[..512], "the values are the first 512 elements");
    }
}
