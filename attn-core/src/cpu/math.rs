//! Arithmetic of the fast path, written for auto-vectorisation and compiled twice: for any processor, and for x86 with
//! AVX2 and FMA, which is selected at run time.

/// Rows are padded to a multiple of this many elements.
pub(super) const LANES: usize = 16;

/// The compilation that this processor runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Simd {
    Any,
    #[cfg(target_arch = "x86_64")]
    Avx2,
}

/// Whether the target has a fused multiply-add instruction without run-time detection.
const FMA: bool = cfg!(any(target_arch = "aarch64", target_feature = "fma"));

/// Declares functions that run one body in either compilation.
macro_rules! dispatch {
    ($($(#[$doc:meta])* $name:ident = $body:ident / $avx2:ident ($($arg:ident: $ty:ty),*) $(-> $ret:ty)?;)*) => {$(
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,fma")]
        fn $avx2($($arg: $ty),*) $(-> $ret)? {
            $body::<true>($($arg),*)
        }

        $(#[$doc])*
        pub(super) fn $name(simd: Simd, $($arg: $ty),*) $(-> $ret)? {
            match simd {
                Simd::Any => $body::<FMA>($($arg),*),
                // SAFETY: `Simd::Avx2` is made by `detect` alone, which found both features.
                #[cfg(target_arch = "x86_64")]
                Simd::Avx2 => unsafe { $avx2($($arg),*) },
            }
        }
    )*};
}

impl Simd {
    pub(super) fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
            return Simd::Avx2;
        }
        Simd::Any
    }
}

/// A row-major matrix: values and the distance between rows.
#[derive(Clone, Copy)]
pub(super) struct Matrix<'a>(pub(super) &'a [f32], pub(super) usize);

dispatch! {
    /// `c[m][n] += a[m][k] * b[k][n]`, rows of `c` at distance `ldc`; `n` is a multiple of [`LANES`].
    matmul = matmul_body / matmul_avx2 (a: Matrix<'_>, b: Matrix<'_>, c: &mut [f32], ldc: usize, mkn: [usize; 3]);
    /// `sum(a[i] * b[i])` over rows of equal length, a multiple of [`LANES`].
    dot = dot_body / dot_avx2 (a: &[f32], b: &[f32]) -> f32;
    /// `x = exp(x - max)`, and their sum; `x <= max`.
    exp_sum = exp_sum_body / exp_sum_avx2 (x: &mut [f32], max: f32) -> f32;
    /// `x *= by`.
    scale = scale_body / scale_avx2 (x: &mut [f32], by: f32);
    /// The dot product of an f64 row and an f32 row of equal length.
    dot64 = dot64_body / dot64_avx2 (a: &[f64], b: &[f32]) -> f64;
    /// `y += a * x` in f64.
    axpy64 = axpy64_body / axpy64_avx2 (a: f64, x: &[f32], y: &mut [f64]);
}

#[inline(always)]
fn madd<const FMA: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FMA { a.mul_add(b, c) } else { a * b + c }
}

#[inline(always)]
fn madd64<const FMA: bool>(a: f64, b: f64, c: f64) -> f64 {
    if FMA { a.mul_add(b, c) } else { a * b + c }
}

#[inline(always)]
fn matmul_body<const FMA: bool>(a: Matrix<'_>, b: Matrix<'_>, c: &mut [f32], ldc: usize, [m, k, n]: [usize; 3]) {
    let fours = m / 4 * 4;
    for i in (0..fours).step_by(4) {
        for j in (0..n).step_by(LANES) {
            matmul_block::<FMA, 4>(a, b, c, ldc, k, [i, j]);
        }
    }
    for i in fours..m {
        for j in (0..n).step_by(LANES) {
            matmul_block::<FMA, 1>(a, b, c, ldc, k, [i, j]);
        }
    }
}

/// R rows by LANES columns of a product, held in registers over all of k.
#[inline(always)]
fn matmul_block<const FMA: bool, const R: usize>(
    Matrix(a, lda): Matrix<'_>,
    Matrix(b, ldb): Matrix<'_>,
    c: &mut [f32],
    ldc: usize,
    k: usize,
    [i, j]: [usize; 2],
) {
    let rows: [&[f32]; R] = std::array::from_fn(|r| &a[(i + r) * lda..][..k]);
    let mut acc: [[f32; LANES]; R] = std::array::from_fn(|r| lanes(c, (i + r) * ldc + j));
    #[allow(clippy::needless_range_loop)] // p indexes rows of b, and columns of a
    for p in 0..k {
        let b = lanes(b, p * ldb + j);
        for r in 0..R {
            let a = rows[r][p];
            for l in 0..LANES {
                acc[r][l] = madd::<FMA>(a, b[l], acc[r][l]);
            }
        }
    }
    for (r, acc) in acc.iter().enumerate() {
        c[(i + r) * ldc + j..][..LANES].copy_from_slice(acc);
    }
}

#[inline(always)]
fn lanes(x: &[f32], at: usize) -> [f32; LANES] {
    let mut lanes = [0.0; LANES];
    lanes.copy_from_slice(&x[at..at + LANES]);
    lanes
}

#[inline(always)]
fn dot_body<const FMA: bool>(a: &[f32], b: &[f32]) -> f32 {
    let mut acc = [0f32; LANES];
    for (a, b) in a.chunks_exact(LANES).zip(b.chunks_exact(LANES)) {
        for l in 0..LANES {
            acc[l] = madd::<FMA>(a[l], b[l], acc[l]);
        }
    }
    pairwise(acc)
}

#[inline(always)]
fn pairwise(mut acc: [f32; LANES]) -> f32 {
    let mut width = LANES / 2;
    while width > 0 {
        for l in 0..width {
            acc[l] += acc[l + width];
        }
        width /= 2;
    }
    acc[0]
}

#[inline(always)]
fn exp_sum_body<const FMA: bool>(x: &mut [f32], max: f32) -> f32 {
    let mut acc = [0f32; LANES];
    let mut chunks = x.chunks_exact_mut(LANES);
    for chunk in &mut chunks {
        for l in 0..LANES {
            chunk[l] = exp_negative::<FMA>(chunk[l] - max);
            acc[l] += chunk[l];
        }
    }
    for (l, x) in chunks.into_remainder().iter_mut().enumerate() {
        *x = exp_negative::<FMA>(*x - max);
        acc[l] += *x;
    }
    pairwise(acc)
}

/// `exp(x)` for `x <= 0`, within 2 ulp; 0 below the normal numbers, NaN for NaN.
///
/// `x = n ln 2 + r` with `|r| <= ln 2 / 2`; then `exp(r)` by its Taylor series (the first term left out is below
/// `0.35^8 / 8!`, 2^-27) and `2^n` by its exponent bits.
#[inline(always)]
fn exp_negative<const FMA: bool>(x: f32) -> f32 {
    const SHIFT: f32 = 12_582_912.0; // 1.5 * 2^23: adding it rounds to an integer
    // ln 2 in two parts: the leading bits, whose product with n is exact, and the rest
    const LN_2_HIGH: f32 = 355.0 / 512.0;
    const LN_2_LOW: f32 = (std::f64::consts::LN_2 - 355.0 / 512.0) as f32;
    const LOWEST: f32 = -87.336_54;
    let clamped = if x < LOWEST { LOWEST } else { x };
    let shifted = madd::<FMA>(clamped, std::f32::consts::LOG2_E, SHIFT);
    let n = shifted - SHIFT;
    let r = madd::<FMA>(n, -LN_2_LOW, madd::<FMA>(n, -LN_2_HIGH, clamped));
    let mut p = 1.0 / 5040.0;
    for c in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        p = madd::<FMA>(p, r, c);
    }
    let exponent = shifted.to_bits().wrapping_sub(SHIFT.to_bits()) << 23;
    let y = f32::from_bits(p.to_bits().wrapping_add(exponent));
    // for NaN, `y` is meaningless
    if x >= LOWEST {
        y
    } else if x < LOWEST {
        0.0
    } else {
        f32::NAN
    }
}

#[inline(always)]
fn scale_body<const FMA: bool>(x: &mut [f32], by: f32) {
    for x in x {
        *x *= by;
    }
}

#[inline(always)]
fn dot64_body<const FMA: bool>(a: &[f64], b: &[f32]) -> f64 {
    const WIDTH: usize = 8;
    let mut acc = [0f64; WIDTH];
    let (a_chunks, b_chunks) = (a.chunks_exact(WIDTH), b.chunks_exact(WIDTH));
    let rest: f64 = a_chunks.remainder().iter().zip(b_chunks.remainder()).map(|(a, b)| a * f64::from(*b)).sum();
    for (a, b) in a_chunks.zip(b_chunks) {
        for l in 0..WIDTH {
            acc[l] = madd64::<FMA>(a[l], f64::from(b[l]), acc[l]);
        }
    }
    acc.iter().sum::<f64>() + rest
}

#[inline(always)]
fn axpy64_body<const FMA: bool>(a: f64, x: &[f32], y: &mut [f64]) {
    for (x, y) in x.iter().zip(y) {
        *y = madd64::<FMA>(a, f64::from(*x), *y);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn simds() -> Vec<Simd> {
        vec![Simd::Any, Simd::detect()]
    }

    proptest! {
        #[test]
        fn exp_is_exp(x in -100f32..=0.0) {
            for simd in simds() {
                let mut y = [x];
                let sum = exp_sum(simd, &mut y, 0.0);
                prop_assert_eq!(sum, y[0]);
                let want = f64::from(x).exp();
                let tolerance = if x < -87.3 { f64::from(f32::MIN_POSITIVE) } else { 2.4e-7 * want };
                prop_assert!((f64::from(y[0]) - want).abs() <= tolerance, "{} -> {} not {}", x, y[0], want);
            }
        }

        #[test]
        fn matmul_is_matmul(m in 1usize..10, k in 0usize..20, blocks in 1usize..4, seed in any::<u32>()) {
            let n = blocks * LANES;
            let hash = |i: usize| (i as u32).wrapping_mul(2_654_435_761).wrapping_add(seed);
            let value = |i: usize| (hash(i) >> 20) as f32 / 4096.0 - 0.5;
            let a: Vec<f32> = (0..m * k).map(value).collect();
            let b: Vec<f32> = (0..k * n).map(|i| value(i + 1000)).collect();
            for simd in simds() {
                let mut c = vec![1f32; m * n];
                matmul(simd, Matrix(&a, k), Matrix(&b, n), &mut c, n, [m, k, n]);
                for i in 0..m {
                    for j in 0..n {
                        let want: f32 = 1.0 + (0..k).map(|p| a[i * k + p] * b[p * n + j]).sum::<f32>();
                        prop_assert!((c[i * n + j] - want).abs() < 1e-5);
                    }
                }
            }
        }
    }

    #[test]
    fn exp_at_its_ends() {
        for simd in simds() {
            let mut x = [0.0, -0.0, f32::NEG_INFINITY, f32::NAN, f32::MIN, -87.0, -88.0, f32::INFINITY];
            exp_sum(simd, &mut x, 0.0);
            assert_eq!((x[0], x[1], x[2], x[4], x[6]), (1.0, 1.0, 0.0, 0.0, 0.0));
            assert!(x[3].is_nan() && x[5] > 0.0);
            let mut x = [f32::INFINITY];
            assert!(exp_sum(simd, &mut x, f32::INFINITY).is_nan(), "inf - inf");
        }
    }

    #[test]
    fn dots_and_sums_take_every_element() {
        let a: Vec<f32> = (1..=32).map(|i| i as f32).collect();
        let b: Vec<f32> = (1..=32).map(|i| (i % 5) as f32).collect();
        let want: f32 = a.iter().zip(&b).map(|(a, b)| a * b).sum();
        let wide: Vec<f64> = a.iter().map(|&a| f64::from(a)).collect();
        for simd in simds() {
            assert_eq!(dot(simd, &a, &b), want);
            for n in [0, 7, 8, 31] {
                let want: f32 = a[..n].iter().zip(&b).map(|(a, b)| a * b).sum();
                assert_eq!(dot64(simd, &wide[..n], &b[..n]), f64::from(want));
            }
            let mut y = wide.clone();
            axpy64(simd, 2.0, &b, &mut y);
            assert_eq!(y[31], 36.0);
            let mut x = a.clone();
            scale(simd, &mut x, 0.5);
            assert_eq!(x[31], 16.0);
        }
    }
}
