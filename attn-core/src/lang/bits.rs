//! Small floating-point formats as bits, for KV formats and hooks. Every function gives the same bits on every device.
//!
//! ```
//! # extern crate attn_core as attn;
//! use attn::bits;
//! // the scale that a row is divided by is the one that is stored
//! let scale = bits::f16_round(0.1);
//! assert_eq!(scale, 0.099975586);
//! assert_eq!(bits::e2m1_value(bits::e2m1_bits(-2.4)), -2.0);
//! assert_eq!(bits::pow2_ceil(0.3), 0.5);
//! ```

pub(crate) use device::CUDA;
pub use device::{
    bf16_bits, bf16_round, bf16_value, e2m1_bits, e2m1_value, e4m3_bits, e4m3_round, e4m3_value, e8m0_value, exponent,
    f16_bits, f16_round, f16_value, pow2_ceil,
};

/// Small floating-point formats as bits: f16, bf16, e4m3, e2m1, e8m0. Sums are of numbers without products, and
/// products are with powers of two and exact, so that nothing changes if a compiler fuses them.
#[attn_macros::device_mod(namespace = "lang::bits", include = "lang/types.cuh")]
mod device {
    /// The f16 nearest to `x`, ties to even, as bits; beyond 65504 an infinity. A NaN is 0x7e00.
    #[must_use]
    pub fn f16_bits(x: f32) -> u32 {
        let bits = x.to_bits();
        let size = bits & 0x7fff_ffff;
        if size > 0x7f80_0000 {
            return 0x7e00;
        }
        let code = if size >= 0x4780_0000 {
            0x7c00
        } else if size < 0x3880_0000 {
            // below 2^-14: the last bits of the sum count units of 2^-24
            (f32::from_bits(size) + 0.75).to_bits() & 0x7ff
        } else {
            // a carry out of the mantissa increments the exponent
            ((size + 0xfff + (size >> 13 & 1)) >> 13) - 0x1_c000
        };
        bits >> 16 & 0x8000 | code
    }

    /// The value of an f16, given as bits.
    #[must_use]
    pub fn f16_value(code: u32) -> f32 {
        let size = code & 0x7fff;
        let value = if size > 0x7c00 {
            0x7fc0_0000
        } else if size == 0x7c00 {
            0x7f80_0000
        } else {
            // the exponent bias is 15; that of an f32 is 127
            (f32::from_bits(size << 13) * 5.192_297e33).to_bits()
        };
        f32::from_bits((code & 0x8000) << 16 | value)
    }

    /// `x` rounded to the nearest f16, ties to even.
    #[must_use]
    pub fn f16_round(x: f32) -> f32 {
        f16_value(f16_bits(x))
    }

    /// The bf16 nearest to `x`, ties to even, as bits. A NaN is 0x7fc0.
    #[must_use]
    pub fn bf16_bits(x: f32) -> u32 {
        let bits = x.to_bits();
        if bits & 0x7fff_ffff > 0x7f80_0000 {
            return 0x7fc0;
        }
        (bits + 0x7fff + (bits >> 16 & 1)) >> 16
    }

    /// The value of a bf16, given as bits.
    #[must_use]
    pub fn bf16_value(code: u32) -> f32 {
        f32::from_bits((code & 0xffff) << 16)
    }

    /// `x` rounded to the nearest bf16, ties to even.
    #[must_use]
    pub fn bf16_round(x: f32) -> f32 {
        bf16_value(bf16_bits(x))
    }

    /// The e4m3 nearest to `x`, ties to even, as bits; magnitudes above 448, infinities too, become 448. A NaN is 0x7f.
    #[must_use]
    pub fn e4m3_bits(x: f32) -> u32 {
        let bits = x.to_bits();
        let size = bits & 0x7fff_ffff;
        if size > 0x7f80_0000 {
            return 0x7f;
        }
        let code = if size >= 0x43e0_0000 {
            0x7e
        } else if size < 0x3c80_0000 {
            // below 2^-6: the last bits of the sum count units of 2^-9
            (f32::from_bits(size) + 24576.0).to_bits() & 0xf
        } else {
            ((size + 0x7_ffff + (size >> 20 & 1)) >> 20) - 0x3c0
        };
        bits >> 24 & 0x80 | code
    }

    /// The value of an e4m3, given as bits.
    #[must_use]
    pub fn e4m3_value(code: u32) -> f32 {
        let size = code & 0x7f;
        // the exponent bias is 7; that of an f32 is 127
        let value = if size == 0x7f { 0x7fc0_0000 } else { (f32::from_bits(size << 20) * 1.329_228e36).to_bits() };
        f32::from_bits((code & 0x80) << 24 | value)
    }

    /// `x` rounded to the nearest e4m3, ties to even; magnitudes above 448 become 448.
    #[must_use]
    pub fn e4m3_round(x: f32) -> f32 {
        e4m3_value(e4m3_bits(x))
    }

    /// The e2m1 nearest to `x`, ties to even, as bits: magnitudes 0, 0.5, 1, 1.5, 2, 3, 4, 6, and the sign in bit 3.
    /// Magnitudes above 6 become 6. There is no NaN: it becomes 6.
    #[must_use]
    pub fn e2m1_bits(x: f32) -> u32 {
        let bits = x.to_bits();
        let size = bits & 0x7fff_ffff;
        if size > 0x7f80_0000 {
            return 7;
        }
        let code = if size > 0x40a0_0000 {
            7
        } else if size < 0x3f80_0000 {
            // below 1: the last bits of the sum count units of 0.5
            (f32::from_bits(size) + 6_291_456.0).to_bits() & 3
        } else {
            ((size + 0x1f_ffff + (size >> 22 & 1)) >> 22) - 252
        };
        bits >> 28 & 8 | code
    }

    /// The value of an e2m1, given as bits.
    #[must_use]
    pub fn e2m1_value(code: u32) -> f32 {
        // the exponent bias is 1; that of an f32 is 127
        let value = (f32::from_bits((code & 7) << 22) * 8.507_059e37).to_bits();
        f32::from_bits((code & 8) << 28 | value)
    }

    /// The value of an e8m0, given as bits: `2^(code - 127)`; a NaN for 255.
    #[must_use]
    pub fn e8m0_value(code: u32) -> f32 {
        match code & 0xff {
            0 => f32::from_bits(0x40_0000),
            255 => f32::NAN,
            exponent => f32::from_bits(exponent << 23),
        }
    }

    /// The exponent of `x` as stored: `floor(log2(|x|)) + 127` of a normal number, 0 below 2^-126, 255 of an infinity
    /// or a NaN.
    #[must_use]
    pub fn exponent(x: f32) -> i32 {
        (x.to_bits() >> 23 & 255) as i32
    }

    /// The least power of two that is not less than `x`, and not less than 2^-126 but for 0. `x` is 0 or positive;
    /// above 2^127 the result is an infinity. NaN stays NaN.
    #[must_use]
    pub fn pow2_ceil(x: f32) -> f32 {
        let bits = x.to_bits();
        if bits > 0x7f80_0000 { f32::NAN } else { f32::from_bits((bits + 0x7f_ffff) & 0xff80_0000) }
    }
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};

    use super::*;
    use crate::lang::F8E4M3;

    /// f32s whose rounding is decided by each combination of bits: every exponent and sign, mantissas around those that
    /// a format of up to ten bits has, and around the ties between them.
    fn floats() -> impl Iterator<Item = f32> {
        let mantissas: Vec<u32> = (0..1u32 << 11)
            .flat_map(|high| {
                [0i64, 1, -1, 0xfff, -2].map(|by| ((i64::from(high) << 12) + by).rem_euclid(1 << 23) as u32)
            })
            .collect();
        (0..512u32).flat_map(move |high| mantissas.clone().into_iter().map(move |m| f32::from_bits(high << 23 | m)))
    }

    #[test]
    fn sixteen_bits_are_those_of_the_crate_half() {
        for x in floats() {
            let (a, b) = (f16::from_f32(x), bf16::from_f32(x));
            if x.is_nan() {
                assert_eq!((f16_bits(x), bf16_bits(x)), (0x7e00, 0x7fc0));
            } else {
                assert_eq!(f16_bits(x), u32::from(a.to_bits()), "{x:e}");
                assert_eq!(bf16_bits(x), u32::from(b.to_bits()), "{x:e}");
                assert_eq!(f16_round(x).to_bits(), a.to_f32().to_bits(), "{x:e}");
                assert_eq!(bf16_round(x).to_bits(), b.to_f32().to_bits(), "{x:e}");
            }
        }
        for code in 0..=0xffffu16 {
            let (a, b) = (f16::from_bits(code), bf16::from_bits(code));
            let same = |x: f32, y: f32| x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan();
            assert!(same(f16_value(u32::from(code)), a.to_f32()), "{code:x}");
            assert!(same(bf16_value(u32::from(code)), b.to_f32()), "{code:x}");
        }
    }

    #[test]
    fn e4m3_is_that_of_tensors() {
        for x in floats() {
            let want = if x.is_nan() { 0x7f } else { u32::from(F8E4M3::from_f32(x).0) };
            assert_eq!(e4m3_bits(x), want, "{x:e}");
            assert!(x.is_nan() || e4m3_round(x) == F8E4M3::from_f32(x).to_f32());
        }
        for code in 0..=255u8 {
            let (x, want) = (e4m3_value(u32::from(code)), F8E4M3(code).to_f32());
            assert!(x.to_bits() == want.to_bits() || x.is_nan() && want.is_nan(), "{code:x}");
        }
    }

    #[test]
    fn e2m1_is_the_nearest_of_its_values() {
        let values = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0f64];
        for x in floats() {
            let got = e2m1_bits(x);
            if x.is_nan() {
                assert_eq!(got, 7);
                continue;
            }
            let distance = |code: usize| (f64::from(x).abs().min(1e9) - values[code]).abs();
            let best = (0..8).min_by(|&a, &b| distance(a).total_cmp(&distance(b)).then((a % 2).cmp(&(b % 2))));
            let sign = u32::from(x.is_sign_negative()) << 3;
            assert_eq!(Some((got ^ sign) as usize), best, "{x:e}");
        }
        for code in 0..16u32 {
            let want = values[(code & 7) as usize] as f32;
            assert_eq!(e2m1_value(code).to_bits(), if code < 8 { want } else { -want }.to_bits());
        }
    }

    #[test]
    fn powers_of_two_are_exact() {
        assert!(e8m0_value(255).is_nan());
        for code in 0..255u32 {
            assert_eq!(f64::from(e8m0_value(code)), 2f64.powi(code as i32 - 127));
        }
        for x in floats().filter(|x| x.is_normal()) {
            assert_eq!(exponent(x), f64::from(x.abs()).log2().floor() as i32 + 127, "{x:e}");
        }
        assert_eq!([0.0, f32::MIN_POSITIVE / 2.0, f32::INFINITY].map(exponent), [0, 0, 255]);
        for x in floats().filter(|x| x.is_normal() && *x > 0.0) {
            // 2^128 is an infinity as an f32
            let power = f64::from(pow2_ceil(x)).min(2f64.powi(128));
            let fits = power >= f64::from(x) && power / 2.0 < f64::from(x) && pow2_ceil(x).to_bits() << 9 == 0;
            assert!(fits, "{x:e}: {power:e}");
        }
        assert_eq!([0.0, 1e-40, f32::INFINITY].map(pow2_ceil), [0.0, f32::MIN_POSITIVE, f32::INFINITY]);
        assert!(pow2_ceil(f32::NAN).is_nan());
    }
}
