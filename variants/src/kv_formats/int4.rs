use attn::lang::kv_format::LinearCodes;
use attn::lang::{EncodeRow, KvFormat, Packed, PackedMut};
use attn::{VariantParams, bits, device_fn, kv_format};

/// Four bits an element, in groups with an f16 scale and, if asked for, an f16 smallest value.
///
/// Without `zero`: `x = code * scale`, `scale = f16(max(|x|) / 7)`, codes from -8 to 7 in two's complement. With it:
/// `x = code * scale + zero`, `zero = f16(min(x))`, `scale = f16((max(x) - zero) / 15)`, codes from 0 to 15. Both over
/// groups of `group` consecutive elements, as values are quantised in KIVI (arXiv 2402.02750). Rounding is to nearest
/// even; the scale that an element is divided by is the stored one. A row is `dim / 2` bytes of codes, the even element
/// in the lower half of a byte. Side data are `dim / group` scales of 2 bytes, padded with zeros to whole words, or as
/// many pairs (scale, zero). A scale beyond the range of f16 is its largest number. A group with a NaN or an infinity
/// is read as NaN.
#[derive(Clone, Debug, PartialEq, VariantParams)]
pub struct Int4 {
    /// Elements of a group.
    #[default(32)]
    #[require(group > 0 && group % 8 == 0 && head_dim % group == 0)]
    pub group: i32,
    /// Whether a group has a smallest value.
    #[default(false)]
    pub zero: bool,
}

/// The largest number of f16.
const F16_MAX: f32 = 65504.0;

/// The nearest f16; a finite number saturates.
#[device_fn]
fn saturated(x: f32) -> f32 {
    bits::f16_round(if x.abs() > F16_MAX && x.is_finite() { F16_MAX.copysign(x) } else { x })
}

#[kv_format(name = "int4")]
impl KvFormat for Int4 {
    fn code_bytes(&self, dim: i32) -> i32 {
        dim / 2
    }

    fn side_bytes(&self, dim: i32) -> i32 {
        let groups = dim / self.group;
        if self.zero { 4 * groups } else { 2 * (groups + groups % 2) }
    }

    fn encode<R: EncodeRow>(&self, x: &R, codes: &mut PackedMut<'_>, side: &mut PackedMut<'_>, _kv_head: i32) {
        let groups = x.dim() / self.group;
        if !self.zero && groups % 2 == 1 {
            side.set_u16(2 * groups, 0);
        }
        for g in 0..groups {
            let first = g * self.group;
            if self.zero {
                let zero: f32 = saturated(x.min(first, self.group));
                let scale: f32 = saturated((x.max(first, self.group) - zero) / 15.0);
                side.set_f16(4 * g, scale);
                side.set_f16(4 * g + 2, zero);
                codes.pack4(first / 2, x, first, self.group, |_, v| {
                    if scale == 0.0 { 0 } else { ((v - zero) / scale).round_ties_even().clamp(0.0, 15.0) as u32 }
                });
            } else {
                let scale: f32 = saturated(x.max_abs(first, self.group) / 7.0);
                side.set_f16(2 * g, scale);
                codes.pack4(first / 2, x, first, self.group, |_, v| {
                    if scale == 0.0 { 0 } else { (v / scale).round_ties_even().clamp(-8.0, 7.0) as i32 as u32 }
                });
            }
        }
    }

    fn decode(&self, codes: Packed<'_>, side: Packed<'_>, _kv_head: i32, d: i32) -> [f32; 8] {
        let (word, g) = (codes.u32(d / 2), d / self.group);
        let mut out = [0.0; 8];
        if self.zero {
            let (scale, zero) = (side.f16(4 * g), side.f16(4 * g + 2));
            for i in 0..8 {
                out[i as usize] = ((word >> (4 * i) as u32 & 15) as f32).mul_add(scale, zero);
            }
        } else {
            let scale = side.f16(2 * g);
            for i in 0..8 {
                // shifts left, then right, extend the sign
                out[i as usize] = ((word << (28 - 4 * i) as u32) as i32 >> 28) as f32 * scale;
            }
        }
        out
    }

    fn linear(&self) -> Option<LinearCodes> {
        Some(if self.zero { LinearCodes::unsigned(4, self.group) } else { LinearCodes::signed(4, self.group) })
    }

    fn scale(&self, side: Packed<'_>, _kv_head: i32, group: i32) -> f32 {
        side.f16(if self.zero { 4 * group } else { 2 * group })
    }

    fn zero(&self, side: Packed<'_>, _kv_head: i32, group: i32) -> f32 {
        side.f16(4 * group + 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{decoded, encoded};

    #[test]
    fn a_row_by_hand() {
        let int4 = Int4 { group: 8, zero: false };
        // the scales are 1 and 2
        let row = [7.0, -7.0, 0.5, 1.5, -1.0, 0.0, 3.0, 2.4, 14.0, -14.0, 1.0, 2.0, 4.0, -2.0, 0.0, 9.0];
        let (codes, side) = encoded(&int4, &row);
        assert_eq!(codes, [0x97, 0x20, 0x0f, 0x23, 0x97, 0x10, 0xf2, 0x40], "ties go to even codes");
        assert_eq!(side, [0x00, 0x3c, 0x00, 0x40]);
        let read = [7.0, -7.0, 0.0, 2.0, -1.0, 0.0, 3.0, 2.0, 14.0, -14.0, 0.0, 2.0, 4.0, -2.0, 0.0, 8.0];
        assert_eq!(decoded(&int4, &codes, &side, 16), read);
    }

    #[test]
    fn a_row_with_a_smallest_value_by_hand() {
        let int4 = Int4 { group: 8, zero: true };
        // from -3 to 4.5 in steps of 0.5
        let row = [-3.0, 4.5, -2.5, 0.0, 0.25, 0.75, 4.0, -3.0];
        let (codes, side) = encoded(&int4, &row);
        assert_eq!(codes, [0xf0, 0x61, 0x86, 0x0e], "ties go to even codes");
        assert_eq!(side, [0x00, 0x38, 0x00, 0xc2]);
        assert_eq!(decoded(&int4, &codes, &side, 8), [-3.0, 4.5, -2.5, 0.0, 0.0, 1.0, 4.0, -3.0]);
    }

    #[test]
    fn the_range_of_f16_and_what_is_no_number() {
        let int4 = |zero| Int4 { group: 8, zero };
        let mut row = [0.0; 8];
        (row[0], row[1]) = (1e9, -1e9);
        let (codes, side) = encoded(&int4(false), &row);
        assert_eq!((codes[0], &side[..]), (0x87, &[0xff, 0x7b, 0, 0][..]), "-8 is allowed beyond the range");
        let (_, side) = encoded(&int4(true), &row);
        assert_eq!(side, [0xff, 0x7b, 0xff, 0xfb]);
        assert_eq!(encoded(&int4(true), &[-1e9; 8]).1, [0xff, 0xfb, 0xff, 0xfb]);
        assert_eq!(encoded(&int4(true), &[1e9; 8]).1, [0xff, 0x7b, 0xff, 0x7b]);
        assert_eq!(encoded(&int4(false), &[0.0; 8]), (vec![0; 4], vec![0; 4]));
        assert_eq!(encoded(&int4(true), &[0.5; 8]), (vec![0; 4], vec![0, 0, 0, 0x38]));
        for (zero, bad) in [(false, f32::NAN), (true, f32::NAN), (false, f32::INFINITY), (true, f32::NEG_INFINITY)] {
            row[2] = bad;
            let (codes, side) = encoded(&int4(zero), &row);
            assert!(decoded(&int4(zero), &codes, &side, 8).iter().all(|x| x.is_nan()), "{zero} {bad}");
        }
    }
}
