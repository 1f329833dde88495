//! What is computed row by row.

use pulp::{Simd, WithSimd};

/// Partial sums, so that sums are in vectors.
const LANES: usize = 8;

/// `out = x / sqrt(mean(x^2) + eps) * weight`
pub(super) struct RmsNorm<'a> {
    pub(super) x: &'a [f32],
    pub(super) weight: &'a [f32],
    pub(super) eps: f32,
    pub(super) out: &'a mut [f32],
}

impl WithSimd for RmsNorm<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) {
        let RmsNorm { x, weight, eps, out } = self;
        let mut sums = [0f64; LANES];
        for chunk in x.chunks(LANES) {
            chunk.iter().zip(&mut sums).for_each(|(x, sum)| *sum += f64::from(*x) * f64::from(*x));
        }
        let mean = sums.iter().sum::<f64>() / x.len() as f64;
        let scale = (1.0 / (mean + f64::from(eps)).sqrt()) as f32;
        for ((x, weight), out) in x.iter().zip(weight).zip(out) {
            *out = x * scale * weight;
        }
    }
}

/// `out = silu(gate) * up`
pub(super) struct SiluMul<'a> {
    pub(super) gate: &'a [f32],
    pub(super) up: &'a [f32],
    pub(super) out: &'a mut [f32],
}

impl WithSimd for SiluMul<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) {
        let SiluMul { gate, up, out } = self;
        for ((gate, up), out) in gate.iter().zip(up).zip(out) {
            *out = silu(*gate) * up;
        }
    }
}

/// `x / (1 + exp(-x))`, by the exponential of a negative number, which does not overflow. The loop around it becomes
/// vectors, which the exponential of the standard library would prevent.
#[inline(always)]
fn silu(x: f32) -> f32 {
    let e = exp_negative(-x.abs());
    let sigmoid = 1.0 / (1.0 + e);
    x * if x >= 0.0 { sigmoid } else { e * sigmoid }
}

/// `exp(x)` for `x <= 0`, within 2 ulp of 1: `2^n` by its exponent bits, times the Taylor series of the rest, which is
/// at most `ln 2 / 2`. Below the normal numbers it stays at the smallest.
#[inline(always)]
fn exp_negative(x: f32) -> f32 {
    const SHIFT: f32 = 12_582_912.0; // 1.5 * 2^23: adding it rounds to an integer
    // ln 2 in two parts: the leading bits, whose product with n is exact, and the rest
    const LN_2_HIGH: f32 = 355.0 / 512.0;
    const LN_2_LOW: f32 = (std::f64::consts::LN_2 - 355.0 / 512.0) as f32;
    let x = if x < -87.0 { -87.0 } else { x };
    let shifted = x * std::f32::consts::LOG2_E + SHIFT;
    let n = shifted - SHIFT;
    let r = (x - n * LN_2_HIGH) - n * LN_2_LOW;
    let mut series = 1.0 / 5040.0;
    for coefficient in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        series = series * r + coefficient;
    }
    let exponent = shifted.to_bits().wrapping_sub(SHIFT.to_bits()) << 23;
    f32::from_bits(series.to_bits().wrapping_add(exponent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silu_is_silu() {
        for i in -2000..=2000 {
            let x = i as f32 / 20.0;
            let want = f64::from(x) / (1.0 + f64::from(-x).exp());
            assert!((f64::from(silu(x)) - want).abs() <= 1e-6 * want.abs().max(1e-3), "{x}: {} {want}", silu(x));
        }
        assert!(silu(f32::NAN).is_nan());
    }

    #[test]
    fn a_norm_divides_by_the_root_of_the_mean_square() {
        let mut out = [0.0; 3];
        let (x, weight) = ([3.0, 0.0, -3.0], [1.0, 5.0, 2.0]);
        pulp::Arch::new().dispatch(RmsNorm { x: &x, weight: &weight, eps: 0.0, out: &mut out });
        let scale = 1.5f32.sqrt();
        assert!(out.iter().zip([scale, 0.0, -2.0 * scale]).all(|(got, want)| (got - want).abs() < 1e-6), "{out:?}");
    }
}
