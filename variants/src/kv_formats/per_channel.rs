use attn::lang::{EncodeRow, KvFormat, Packed, PackedMut, Tensor2};
use attn::{VariantParams, kv_format};

/// Eight or four bits an element, with a scale for each channel: a head's element `d` of every token.
///
/// `x = code * scales[kv_head, d]`, rounded to nearest even. The scales are calibrated beforehand, as `max(|x|) / 127`
/// or `max(|x|) / 7` over some text; what exceeds them is clamped. Outliers of keys lie in few channels, which is why
/// KIVI (arXiv 2402.02750) and KVQuant (arXiv 2401.18079) quantise keys so. A row is `dim` bytes of codes from -127 to
/// 127, or `dim / 2` of codes from -8 to 7 in two's complement, the even element in the lower half of a byte; it has no
/// side data. A NaN is stored as 0.
#[derive(Clone, Debug, PartialEq, VariantParams)]
pub struct PerChannel {
    /// Bits of a code, 8 or 4.
    #[default(8)]
    #[require(bits == 8 || bits == 4)]
    pub bits: i32,
    /// The scale of each KV head and element.
    #[shape(kv_heads, head_dim)]
    #[require(scales.as_slice().iter().all(|x| x.is_finite()))]
    pub scales: Tensor2<f32>,
}

#[kv_format(name = "per_channel")]
impl KvFormat for PerChannel {
    fn code_bytes(&self, dim: i32) -> i32 {
        dim / 8 * self.bits
    }

    fn encode<R: EncodeRow>(&self, x: &R, codes: &mut PackedMut<'_>, _side: &mut PackedMut<'_>, kv_head: i32) {
        if self.bits == 4 {
            codes.pack4(0, x, 0, x.dim(), |d, v| {
                (v / self.scales[[kv_head, d]]).round_ties_even().clamp(-8.0, 7.0) as i32 as u32
            });
        } else {
            codes.pack8(0, x, 0, x.dim(), |d, v| {
                (v / self.scales[[kv_head, d]]).round_ties_even().clamp(-127.0, 127.0) as i32 as u32
            });
        }
    }

    fn decode(&self, codes: Packed<'_>, _side: Packed<'_>, kv_head: i32, d: i32) -> [f32; 8] {
        let mut out = [0.0; 8];
        if self.bits == 4 {
            let word = codes.u32(d / 2);
            for i in 0..8 {
                let code = (word << (28 - 4 * i) as u32) as i32 >> 28;
                out[i as usize] = code as f32 * self.scales[[kv_head, d + i]];
            }
        } else {
            let words = codes.words2(d);
            for i in 0..8 {
                let code = (words[(i / 4) as usize] << (24 - 8 * (i % 4)) as u32) as i32 >> 24;
                out[i as usize] = code as f32 * self.scales[[kv_head, d + i]];
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{decoded_of, encoded_of};

    #[test]
    fn a_row_by_hand() {
        let scales = [[1.0; 8], [0.5, 1.0, 2.0, 4.0, 0.0, 1.0, 1.0, 1.0]].concat();
        let scales = Tensor2::new(scales, [2, 8]).expect("16 scales");
        let row = [1.0, -2.5, 3.0, 1000.0, 5.0, f32::NAN, -1000.0, 0.0];
        let format = PerChannel { bits: 8, scales };
        let (codes, side) = encoded_of(&format, &row, 1);
        assert_eq!((&codes[..], &side[..]), (&[2, 0xfe, 2, 127, 127, 0, 0x81, 0][..], &[][..]));
        assert_eq!(decoded_of(&format, &codes, &side, 8, 1), [1.0, -2.0, 4.0, 508.0, 0.0, 0.0, -127.0, 0.0]);
        let format = PerChannel { bits: 4, ..format };
        let (codes, side) = encoded_of(&format, &row, 1);
        assert_eq!(codes, [0xe2, 0x72, 0x07, 0x08]);
        assert_eq!(decoded_of(&format, &codes, &side, 8, 1), [1.0, -2.0, 4.0, 28.0, 0.0, 0.0, -8.0, 0.0]);
    }
}
