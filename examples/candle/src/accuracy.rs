//! Whether a run in f16 or bf16 is as accurate as candle's own.
//!
//! Two runs in such a type differ by the rounding of both. How far depends on the weights and on the type, so a fixed
//! bound of their difference either refuses runs that are as good as candle's own, or accepts worse ones. So both are
//! compared with candle's own run in f32, over the same rounded weights: what remains is the rounding of each run.

/// How far logits are from those of another run, over all rows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Errors {
    /// The largest difference of a logit.
    pub(crate) largest: f32,
    /// Sums of squares, of differences and of the logits of the other run.
    squares: [f64; 2],
    /// The rows whose greedy token differs: how far the other run's best logit is above the one that was chosen.
    margins: Vec<f32>,
}

/// What is allowed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowed {
    largest: f32,
    relative: f64,
    /// The margin of the best logit below which another greedy token is allowed.
    margin: f32,
}

impl Errors {
    /// A row of logits; `want` is that of the other run.
    pub(crate) fn add(&mut self, want: &[f32], got: &[f32]) {
        for (&want, &got) in want.iter().zip(got) {
            let difference = (want - got).abs();
            self.largest = self.largest.max(if difference.is_nan() { f32::INFINITY } else { difference });
            self.squares[0] += f64::from(want - got).powi(2);
            self.squares[1] += f64::from(want).powi(2);
        }
        let (best, chosen) = (greedy(want), greedy(got));
        if best != chosen {
            self.margins.push(want[best] - want[chosen]);
        }
    }

    /// The Frobenius norm of the differences over that of the other run's logits.
    pub(crate) fn relative(&self) -> f64 {
        (self.squares[0] / self.squares[1]).sqrt()
    }

    /// Rows whose greedy token differs.
    pub(crate) fn other_tokens(&self) -> usize {
        self.margins.len()
    }

    /// What is not allowed, in words.
    pub(crate) fn check(&self, allowed: Allowed) -> Result<(), String> {
        let Allowed { largest, relative, margin } = allowed;
        if self.largest > largest {
            return Err(format!("a logit is off by {}, and {largest} is allowed", self.largest));
        }
        match self.relative() {
            of if of <= relative => {}
            of => return Err(format!("the relative error of logits is {of}, and {relative} is allowed")),
        }
        match self.margins.iter().find(|&&got| got > margin) {
            Some(got) => Err(format!("another greedy token, {got} below the best; {margin} is allowed")),
            None => Ok(()),
        }
    }
}

impl Allowed {
    /// For runs in f32, which differ by the order of sums.
    pub(crate) const F32: Allowed = Allowed { largest: 2e-3, relative: 1e-4, margin: 2e-3 };

    /// As accurate as a run with these errors, up to a factor. candle's models compute attention in f32, kernels on
    /// tensor cores round the weights, and over some dozen rows errors differ by chance. Another greedy token is
    /// allowed where that run's own error may change the order of two logits.
    pub(crate) fn beside(own: &Errors) -> Self {
        const FACTOR: f32 = 1.5;
        Allowed { largest: FACTOR * own.largest, relative: f64::from(FACTOR) * own.relative(), margin: own.largest }
    }
}

/// The token of the largest logit.
pub(crate) fn greedy(logits: &[f32]) -> usize {
    (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WANT: [f32; 4] = [1.0, 4.0, -2.0, 3.9];

    fn errors(rows: &[[f32; 4]]) -> Errors {
        let mut errors = Errors::default();
        rows.iter().for_each(|row| errors.add(&WANT, row));
        errors
    }

    #[test]
    fn errors_are_those_of_the_rows() {
        let errors = errors(&[WANT, [1.0, 3.7, -2.0, 3.9]]);
        assert!((errors.largest - 0.3).abs() < 1e-6);
        let squares: f64 = WANT.iter().map(|&logit| 2.0 * f64::from(logit).powi(2)).sum();
        assert!((errors.relative() - (0.09 / squares).sqrt()).abs() < 1e-6);
        assert_eq!(errors.margins, [WANT[1] - WANT[3]]);
    }

    #[test]
    fn as_accurate_as_the_own_run_is_allowed_and_worse_is_not() {
        let own = errors(&[[1.1, 4.1, -2.1, 3.8]]);
        let allowed = Allowed::beside(&own);
        own.check(allowed).expect("itself");
        errors(&[[0.9, 3.9, -1.9, 3.8]]).check(allowed).expect("the same errors with other signs");
        let fails = |row| errors(&[row]).check(allowed).expect_err("it is worse");
        assert!(fails([1.0, 4.2, -2.0, 3.9]).contains("a logit is off"));
        assert!(fails([f32::NAN, 4.0, -2.0, 3.9]).contains("a logit is off"));
        let allowed = Allowed::beside(&errors(&[[1.1, 4.0, -2.0, 3.9]]));
        let more = errors(&[[1.12, 4.12, -2.12, 3.78]]).check(allowed);
        assert!(more.expect_err("it is worse").contains("relative error"));
    }

    #[test]
    fn another_token_is_allowed_below_the_own_error_alone() {
        let row = [1.0, 3.94, -2.0, 3.96];
        let own = errors(&[[1.06, 4.0, -2.0, 3.9]]);
        let refused = errors(&[row]).check(Allowed { largest: 1.0, relative: 1.0, ..Allowed::beside(&own) });
        assert!(refused.expect_err("a margin of 0.1").contains("greedy token"));
        let own = errors(&[[1.2, 4.0, -2.0, 3.9]]);
        errors(&[row]).check(Allowed::beside(&own)).expect("a margin of 0.1, and an error of 0.2");
        assert!(errors(&[row]).check(Allowed::F32).is_err());
    }
}
