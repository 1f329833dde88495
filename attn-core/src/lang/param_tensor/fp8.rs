//! FP8 formats, named as in the OCP 8-bit Floating Point Specification, revision 1.0.

use bytemuck::{Pod, Zeroable};

/// Four bits of exponent, three of mantissa: magnitudes up to 448, one NaN of each sign, no infinities.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Pod, Zeroable)]
pub struct F8E4M3(
    /// Sign, exponent, mantissa.
    pub u8,
);

/// Five bits of exponent, two of mantissa, the upper byte of an f16: magnitudes up to 57344, with infinities and NaN.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Pod, Zeroable)]
pub struct F8E5M2(
    /// Sign, exponent, mantissa.
    pub u8,
);

impl F8E4M3 {
    /// The greatest finite value.
    pub const MAX: f32 = 448.0;

    /// Rounds to the nearest value, ties to even, and saturates to [`Self::MAX`], for infinities too. NaN stays NaN.
    #[must_use]
    pub fn from_f32(x: f32) -> Self {
        let size = if x.is_nan() { 0x7f } else { nearest(x.abs(), 3, 7).min(0x7e) };
        F8E4M3(sign(x) | size)
    }

    /// Converts exactly.
    #[must_use]
    pub fn to_f32(self) -> f32 {
        let size = u32::from(self.0 & 0x7f);
        // the exponent bias is 7; that of an f32 is 127
        let x = if size == 0x7f { f32::NAN } else { f32::from_bits(size << 20) * 2f32.powi(120) };
        if self.0 & 0x80 == 0 { x } else { -x }
    }
}

impl F8E5M2 {
    /// The greatest finite value.
    pub const MAX: f32 = 57344.0;

    /// Rounds to the nearest value, ties to even; beyond [`Self::MAX`] the result is an infinity. NaN stays NaN.
    #[must_use]
    pub fn from_f32(x: f32) -> Self {
        let size = if x.is_nan() { 0x7e } else { nearest(x.abs(), 2, 15).min(0x7c) };
        F8E5M2(sign(x) | size)
    }

    /// Converts exactly.
    #[must_use]
    pub fn to_f32(self) -> f32 {
        half::f16::from_bits(u16::from(self.0) << 8).to_f32()
    }
}

fn sign(x: f32) -> u8 {
    if x.is_sign_negative() { 0x80 } else { 0 }
}

/// The code of the value nearest to `x >= 0` with `mantissa` bits of mantissa and an unbounded exponent; 255 if it does
/// not fit a byte.
fn nearest(x: f32, mantissa: i32, bias: i32) -> u8 {
    if x.is_infinite() {
        return u8::MAX;
    }
    let exponent = ((x.to_bits() >> 23) as i32 - 127).max(1 - bias);
    // scaling by a power of two is exact, so this rounds once, to an integer in units of the last place
    let steps = (f64::from(x) * 2f64.powi(mantissa - exponent)).round_ties_even() as i32;
    // a carry out of the mantissa increments the exponent
    u8::try_from(((exponent + bias - 1) << mantissa) + steps).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_match_the_specification() {
        let e4m3 = |bits| F8E4M3(bits).to_f32();
        assert_eq!(
            (e4m3(0x00), e4m3(0x01), e4m3(0x08), e4m3(0x38), e4m3(0x7e)),
            (0.0, 2f32.powi(-9), 2f32.powi(-6), 1.0, 448.0)
        );
        assert!(e4m3(0x7f).is_nan() && e4m3(0xff).is_nan());
        assert_eq!((e4m3(0xc0), e4m3(0x80).to_bits()), (-2.0, (-0.0f32).to_bits()));
        let e5m2 = |bits| F8E5M2(bits).to_f32();
        assert_eq!((e5m2(0x01), e5m2(0x04), e5m2(0x3c), e5m2(0x7b)), (2f32.powi(-16), 2f32.powi(-14), 1.0, 57344.0));
        assert_eq!((e5m2(0x7c), e5m2(0xfc)), (f32::INFINITY, f32::NEG_INFINITY));
        assert!(e5m2(0x7d).is_nan() && e5m2(0x7f).is_nan());
    }

    #[test]
    fn values_round_trip_and_ties_round_to_even() {
        for bits in 0..=255u8 {
            let (a, b) = (F8E4M3(bits), F8E5M2(bits));
            assert!(
                a.to_f32().is_nan() && F8E4M3::from_f32(a.to_f32()).to_f32().is_nan()
                    || F8E4M3::from_f32(a.to_f32()) == a
            );
            assert!(
                b.to_f32().is_nan() && F8E5M2::from_f32(b.to_f32()).to_f32().is_nan()
                    || F8E5M2::from_f32(b.to_f32()) == b
            );
        }
        for bits in 0..0x7eu8 {
            let (low, high) = (F8E4M3(bits).to_f32(), F8E4M3(bits + 1).to_f32());
            let half = f32::midpoint(low, high);
            let even = if bits % 2 == 0 { bits } else { bits + 1 };
            assert_eq!(F8E4M3::from_f32(half).0, even, "between {low} and {high}");
            assert_eq!(F8E4M3::from_f32(half.next_down()).0, bits);
            assert_eq!(F8E4M3::from_f32(-half.next_up()).0, 0x80 | (bits + 1));
        }
        for bits in 0..0x7bu8 {
            let half = f32::midpoint(F8E5M2(bits).to_f32(), F8E5M2(bits + 1).to_f32());
            assert_eq!(F8E5M2::from_f32(half).0, if bits % 2 == 0 { bits } else { bits + 1 });
        }
    }

    #[test]
    fn values_beyond_the_maximum() {
        for x in [464.0, 1e9, f32::INFINITY] {
            assert_eq!(F8E4M3::from_f32(x).to_f32(), 448.0);
        }
        assert_eq!(F8E5M2::from_f32(61439.0).to_f32(), 57344.0);
        assert_eq!(F8E5M2::from_f32(61440.0).to_f32(), f32::INFINITY);
        assert_eq!(F8E5M2::from_f32(-1e30).to_f32(), f32::NEG_INFINITY);
        assert_eq!(F8E4M3::from_f32(1e-30).0, 0);
        assert!(F8E4M3::from_f32(f32::NAN).to_f32().is_nan() && F8E5M2::from_f32(-f32::NAN).to_f32().is_nan());
    }
}
