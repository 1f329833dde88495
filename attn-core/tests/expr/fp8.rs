//! FP8 elements against an independent implementation of the OCP 8-bit Floating Point Specification, revision 1.0.

use attn_core::dtype::Dtype;
use attn_core::lang::{F8E4M3, F8E5M2};
use attn_core::tensor::Element;

/// The parameters of a format.
struct Format {
    mantissa: u32,
    bias: i32,
    /// The greatest finite code, without sign.
    last: u8,
}

const E4M3: Format = Format { mantissa: 3, bias: 7, last: 0x7e };
const E5M2: Format = Format { mantissa: 2, bias: 15, last: 0x7b };

impl Format {
    /// The value of a finite code: sign, exponent and mantissa by definition, in f64.
    fn value(&self, code: u8) -> f64 {
        let sign = if code >> 7 == 1 { -1.0 } else { 1.0 };
        let ones = 1u32 << self.mantissa;
        let (exponent, mantissa) = (u32::from(code & 0x7f) / ones, u32::from(code & 0x7f) % ones);
        let fraction = f64::from(mantissa) / f64::from(ones);
        sign * match exponent {
            0 => fraction * 2f64.powi(1 - self.bias),
            _ => (1.0 + fraction) * 2f64.powi(exponent as i32 - self.bias),
        }
    }

    /// The nearest finite code by exhaustive search, ties to even. `x` must not be NaN.
    fn nearest(&self, x: f32) -> u8 {
        let sign = if x.is_sign_negative() { 0x80 } else { 0 };
        let size = f64::from(x.abs());
        let distance = |code: &u8| (self.value(*code) - size).abs();
        if size >= self.value(self.last) {
            return sign | self.last;
        }
        let order = |a: &u8, b: &u8| distance(a).total_cmp(&distance(b)).then((a % 2).cmp(&(b % 2)));
        sign | (0..=self.last).min_by(order).expect("there are codes")
    }
}

fn check<T: Element>(format: &Format, code: fn(T) -> u8, of: fn(u8) -> T) {
    // every code
    for byte in 0..=u8::MAX {
        let x = of(byte).to_f32();
        if byte & 0x7f <= format.last {
            assert_eq!(f64::from(x), format.value(byte), "{byte:#x}");
            assert_eq!((code(T::from_f32(x)), x.is_sign_negative()), (byte, byte >> 7 == 1), "{byte:#x} comes back");
        } else if format.last == 0x7b && byte & 0x7f == 0x7c {
            assert!(x.is_infinite() && x.is_sign_negative() == (byte >> 7 == 1), "{byte:#x} is an infinity");
        } else {
            assert!(x.is_nan(), "{byte:#x} is NaN");
            assert!(of(code(T::from_f32(x))).to_f32().is_nan(), "and stays NaN");
        }
    }
    // between neighbours: ties go to the even code, other values to the nearer one
    for byte in 0..format.last {
        let middle = ((format.value(byte) + format.value(byte + 1)) / 2.0) as f32;
        let even = if byte % 2 == 0 { byte } else { byte + 1 };
        for (x, want) in [(middle, even), (middle.next_down(), byte), (middle.next_up(), byte + 1)] {
            assert_eq!(code(T::from_f32(x)), want, "{x}");
            assert_eq!(code(T::from_f32(-x)), 0x80 | want, "{x}");
        }
    }
    // beyond the greatest code
    let last = format.value(format.last) as f32;
    for x in [last, last.next_up(), last * 1.03, last * 1.07, last * 2.0, 1e30, f32::MAX, f32::INFINITY] {
        assert_eq!(code(T::from_f32(x)), format.last, "{x} saturates");
        assert_eq!(code(T::from_f32(-x)), 0x80 | format.last, "{x} saturates");
    }
    for nan in [f32::NAN, -f32::NAN, f32::from_bits(0x7f80_0001)] {
        assert!(of(code(T::from_f32(nan))).to_f32().is_nan());
    }
    // random values of every magnitude
    let mut state = 1u32;
    for _ in 0..20_000 {
        state = state.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
        let x = f32::from_bits(state ^ state >> 15);
        if !x.is_nan() {
            assert_eq!(code(T::from_f32(x)), format.nearest(x), "{x:e}");
            // of magnitudes within the type's range
            let x = x.signum() * (state % 100_000) as f32 * 2f32.powi((state >> 27) as i32 - 20);
            assert_eq!(code(T::from_f32(x)), format.nearest(x), "{x:e}");
        }
    }
}

#[test]
fn e4m3_matches_the_specification_and_saturates() {
    assert_eq!((E4M3.value(E4M3.last), E4M3.value(1), F8E4M3::DTYPE), (448.0, 2f64.powi(-9), Dtype::E4m3));
    check::<F8E4M3>(&E4M3, |x| x.0, F8E4M3);
}

#[test]
fn e5m2_matches_the_specification_and_saturates() {
    assert_eq!((E5M2.value(E5M2.last), E5M2.value(1), F8E5M2::DTYPE), (57344.0, 2f64.powi(-16), Dtype::E5m2));
    check::<F8E5M2>(&E5M2, |x| x.0, F8E5M2);
    // the conversion of parameter tensors keeps the infinities that IEEE formats have
    assert_eq!(F8E5M2::from_f32(f32::INFINITY).0, 0x7c);
    assert_eq!(<F8E5M2 as Element>::from_f32(f32::INFINITY).0, 0x7b);
}
