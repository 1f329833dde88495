//! Functions of hooks that Rust's f32 has no method for.

/// The error function, `2 / sqrt(pi)` times the integral of `exp(-t^2)` from 0 to x: `0.5 * x * (1.0 +
/// math::erf(x * FRAC_1_SQRT_2))` is GELU. On the CPU within 0.51 units in the last place, on the GPU CUDA's `erff`,
/// within 2.
#[must_use]
pub fn erf(x: f32) -> f32 {
    libm::erf(f64::from(x)) as f32
}

#[cfg(test)]
mod tests {
    use super::erf;

    /// The series around 0 up to 3, and the continued fraction of the complement beyond.
    fn reference(x: f64) -> f64 {
        let of_pi = std::f64::consts::FRAC_2_SQRT_PI;
        let a = x.abs();
        let positive = if a < 3.0 {
            let (mut term, mut sum) = (a, a);
            for n in 1..200 {
                let n = f64::from(n);
                term *= -a * a / n;
                sum += term / (2.0 * n + 1.0);
            }
            of_pi * sum
        } else {
            let fraction = (1..=200).rev().fold(a, |below, n| a + f64::from(n) / 2.0 / below);
            1.0 - (-a * a).exp() / fraction * of_pi / 2.0
        };
        positive.copysign(x)
    }

    #[test]
    fn it_is_rounded_from_f64() {
        let mut worst = 0f64;
        let mut x = 1e-30f32;
        while x < 12.0 {
            for x in [x, -x] {
                let (got, want) = (erf(x), reference(f64::from(x)));
                let ulp = f64::from(want.abs() as f32).log2().floor().exp2() * f64::from(f32::EPSILON);
                worst = worst.max((f64::from(got) - want).abs() / ulp);
            }
            x *= 1.003;
        }
        assert!(worst <= 0.51, "{worst}");
        let ends = [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY].map(|x| erf(x).to_bits());
        assert_eq!(ends, [0.0f32, -0.0, 1.0, -1.0].map(f32::to_bits));
        assert!(erf(f32::NAN).is_nan());
        assert_eq!(erf(0.5), 0.520_499_9);
    }
}
