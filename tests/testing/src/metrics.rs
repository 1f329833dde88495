//! Distances of a result from the reference.

use attn::Dtype;
use attn_core::cpu::OracleOut;

/// The rounding of a log-sum-exp, in ulps of the largest one. A large bias is rounded four times: when it is computed,
/// when it is scaled to the unit of Q K^T, when Q K^T is added, and when the sum is scaled to a logit.
const LSE_UNITS: f64 = 6.0;

/// The condition from which no digit of a sum is left in f32: its sign, and whether it has a logarithm, is chance.
const NO_DIGITS: f64 = (1 << 22) as f64;

/// The tolerance of a result.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Tolerance {
    /// Relative Frobenius error of the whole output.
    pub rel: f64,
    /// Error of one (token, head) row, relative to its norm.
    pub row: f64,
    /// Absolute error of the log-sum-exp.
    pub lse: f64,
}

impl Tolerance {
    /// The tolerance of an output of this dtype: 5e-3 for bf16, 1e-3 for f16, 1e-5 for f32, 3.5e-2 for e4m3; rows
    /// within four times that (f32: ten times, e4m3: twice). Log-sum-exps are within 1e-5 for every dtype, since
    /// nothing is rounded to it on the way to them; see [`with_lse_ulps`](Self::with_lse_ulps).
    #[must_use]
    pub fn of(dtype: Dtype) -> Self {
        let (rel, row) = match dtype {
            // no output has the other types of 8 bits
            Dtype::Bf16 | Dtype::E5m2 | Dtype::U8 => (5e-3, 2e-2),
            // three bits of mantissa
            Dtype::E4m3 => (3.5e-2, 7e-2),
            Dtype::F16 => (1e-3, 4e-3),
            // logits of hundreds lose digits before the exponential
            Dtype::F32 => (1e-5, 1e-4),
        };
        Tolerance { rel, row, lse: 1e-5 }
    }

    /// Allows log-sum-exps 6 ulps of the largest of these more: where logits are in the hundreds, they lose digits
    /// before the exponential.
    #[must_use]
    pub fn with_lse_ulps(self, lse: &[f64]) -> Self {
        let largest = lse.iter().filter(|lse| lse.is_finite()).fold(0.0f64, |most, lse| most.max(lse.abs()));
        Tolerance { lse: self.lse + LSE_UNITS * f64::from(f32::EPSILON) * largest, ..self }
    }
}

/// The distances of a result from its reference.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Distance {
    /// `|o - reference| / |reference|` over the whole output (Frobenius); 0 when both are 0.
    pub rel_err: f64,
    /// The largest `|row - reference| / max(|reference row|, floor)`. `floor` is 1/1000 of the root mean square norm of
    /// the reference's rows, so that a row that vanishes by rounding does not count.
    pub row_err: f64,
    /// The largest `|lse - reference|`, over the condition of its row ([`OracleOut::condition`]), which is 1 for a
    /// softmax; infinite where one is infinite and the other is not.
    ///
    /// [`OracleOut::condition`]: attn_core::cpu::OracleOut::condition
    pub lse_err: f64,
    /// NaNs in the output and the log-sum-exp. Any fails.
    pub nan: u64,
}

impl Distance {
    /// The distances of `o` from `want`, in rows of `head_dim`, and of the log-sum-exps, if given.
    #[must_use]
    pub fn between(o: &[f32], want: &[f64], head_dim: usize, lse: Option<(&[f32], &[f64])>) -> Self {
        Self::of_rows(o, want, head_dim, lse, |_| 1.0)
    }

    /// The distances from a reference, each row's over its cancellation ([`OracleOut::cancellation`]) and its
    /// log-sum-exp's over its condition ([`OracleOut::condition`]), which are 1 for a softmax.
    ///
    /// [`OracleOut::cancellation`]: attn_core::cpu::OracleOut::cancellation
    /// [`OracleOut::condition`]: attn_core::cpu::OracleOut::condition
    pub(super) fn to(want: &OracleOut, o: &[f32], lse: &[f32], head_dim: usize) -> Self {
        let cancellation = |row: usize| want.cancellation.get(row).copied().unwrap_or(1.0);
        let distance = Self::of_rows(o, &want.o, head_dim, Some((lse, &want.lse)), cancellation);
        distance.over_conditions(lse, &want.lse, &want.condition)
    }

    fn of_rows(
        o: &[f32],
        want: &[f64],
        head_dim: usize,
        lse: Option<(&[f32], &[f64])>,
        cancellation: impl Fn(usize) -> f64,
    ) -> Self {
        let mut nan = o.iter().filter(|x| x.is_nan()).count() as u64;
        let rows = want.chunks_exact(head_dim.max(1)).zip(o.chunks_exact(head_dim.max(1)));
        let norms: Vec<(f64, f64)> = rows
            .enumerate()
            .map(|(row, (want, got))| {
                let diff: f64 = want.iter().zip(got).map(|(w, g)| (w - f64::from(*g)).powi(2)).sum();
                (diff / cancellation(row).powi(2), want.iter().map(|w| w * w).sum())
            })
            .collect();
        let diff: f64 = norms.iter().map(|n| n.0).sum();
        let norm: f64 = norms.iter().map(|n| n.1).sum();
        let floor = (norm / norms.len().max(1) as f64).sqrt() / 1000.0;
        let ratio = |diff: f64, norm: f64| if diff == 0.0 { 0.0 } else { diff / norm };
        let mut worst = Distance { rel_err: ratio(diff.sqrt(), norm.sqrt()), ..Distance::default() };
        for (diff, norm) in norms {
            worst.row_err = larger(worst.row_err, ratio(diff.sqrt(), norm.sqrt().max(floor)));
        }
        if let Some((got, want)) = lse {
            for (&got, &want) in got.iter().zip(want) {
                nan += u64::from(got.is_nan());
                let same = f64::from(got) == want; // -inf against -inf
                worst.lse_err = larger(worst.lse_err, if same { 0.0 } else { (f64::from(got) - want).abs() });
            }
        }
        worst.nan = nan;
        worst
    }

    /// The distances, with that of the log-sum-exp over the conditions of its rows.
    #[must_use]
    fn over_conditions(self, got: &[f32], want: &[f64], conditions: &[f64]) -> Self {
        let rows = got.iter().zip(want).zip(conditions);
        let errors = rows.map(|((&got, &want), condition)| match f64::from(got) {
            got if got == want => 0.0, // -inf against -inf
            got if got.is_finite() && want.is_finite() => (got - want).abs() / condition,
            got if !got.is_nan() && *condition >= NO_DIGITS => 0.0,
            got => (got - want).abs(),
        });
        Distance { lse_err: errors.fold(0.0, larger), ..self }
    }

    /// The largest of the distances as a share of its tolerance; NaN is the largest.
    pub(super) fn share_of(&self, tolerance: &Tolerance) -> f64 {
        let rows = larger(self.rel_err / tolerance.rel, self.row_err / tolerance.row);
        larger(rows, self.lse_err / tolerance.lse)
    }

    /// Whether all distances are within the tolerance.
    #[must_use]
    pub fn within(&self, tolerance: &Tolerance) -> bool {
        self.nan == 0 && self.rel_err <= tolerance.rel && self.row_err <= tolerance.row && self.lse_err <= tolerance.lse
    }
}

/// The larger of two; NaN is the largest.
fn larger(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }
}

#[cfg(test)]
mod tests {
    use super::{Distance, Tolerance};
    use attn::Dtype;

    #[test]
    fn one_wrong_row_fails_where_the_whole_would_pass() {
        let want: Vec<f64> = (0..4000).map(|i| f64::from(i % 7) - 3.0).collect();
        let mut got: Vec<f32> = want.iter().map(|&x| x as f32).collect();
        assert!(Distance::between(&got, &want, 4, None).within(&Tolerance::of(Dtype::F32)));
        got[2001] += 0.2;
        let far = Distance::between(&got, &want, 4, None);
        assert!(far.rel_err < 5e-3 && far.row_err > 0.02, "{far:?}");
        assert!(!far.within(&Tolerance::of(Dtype::Bf16)));
    }

    #[test]
    fn nan_and_infinities_never_pass() {
        let t = Tolerance::of(Dtype::Bf16);
        assert!(!Distance::between(&[f32::NAN], &[1.0], 1, None).within(&t));
        assert!(!Distance::between(&[0.5], &[0.0], 1, None).within(&t), "zero is wanted exactly");
        let lse = |got, want| Distance::between(&[0.0], &[0.0], 1, Some((&[got], &[want]))).within(&t);
        assert!(lse(f32::NEG_INFINITY, f64::NEG_INFINITY) && lse(1.0, 1.000_005));
        assert!(!lse(1.0, 1.000_05));
        assert!(!lse(f32::NEG_INFINITY, 0.0) && !lse(0.0, f64::NEG_INFINITY) && !lse(f32::NAN, 0.0));
    }
}
