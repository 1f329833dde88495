//! Skip-softmax: KV tiles whose keys weigh next to nothing are left out of a row's softmax.

use super::AttentionOptions;
use crate::expr::Variant;
use crate::lang::Normalizer;

/// Why an attention cannot have [`AttentionOptions::skip_softmax`].
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // of fields, which the messages name
pub enum SkipSoftmaxError {
    /// The threshold.
    #[error(
        "skip_softmax = {threshold}; it must be positive and finite: how far below a row's largest logit the keys of a \
         tile are left out. Leave it out for the weights of all keys"
    )]
    Threshold { threshold: f32 },
    /// The variant.
    #[error("`{variant}` has weights of its own, which skip_softmax has no bound for. Leave skip_softmax out")]
    Weights { variant: String },
    /// Batch invariance.
    #[error(
        "skip_softmax = {threshold} beside fixed_split_size: a tile is left out for all of its rows or for none, so \
         that the bits of a row would depend on the rows beside it. Leave one of them out"
    )]
    FixedSplits { threshold: f32 },
}

impl AttentionOptions {
    /// Checks that tiles may be left out. `variant` has its stored form.
    ///
    /// # Errors
    ///
    /// See [`SkipSoftmaxError`]; there is none without [`AttentionOptions::skip_softmax`].
    pub fn check_skip_softmax(&self, variant: &Variant) -> Result<(), SkipSoftmaxError> {
        let Some(threshold) = self.skip_softmax else { return Ok(()) };
        if !(threshold > 0.0 && threshold.is_finite()) {
            return Err(SkipSoftmaxError::Threshold { threshold });
        }
        if variant.normalizer() != Normalizer::Softmax {
            return Err(SkipSoftmaxError::Weights { variant: variant.to_string() });
        }
        match self.fixed_split_size {
            Some(_) => Err(SkipSoftmaxError::FixedSplits { threshold }),
            None => Ok(()),
        }
    }
}

/// The largest share of a row's weights that [`AttentionOptions::skip_softmax`] leaves out, where it leaves out `keys`
/// of its keys.
///
/// Each of them weighs at most `exp(-threshold)` of a key that stays, the largest before it. So the sum of those is at
/// most `r = keys exp(-threshold)` of the sum of what stays, and their share of all is at most `r / (1 + r)`. An
/// element of the output is wrong by this share of the range of that element in the values, a log-sum-exp is too small
/// by at most `ln(1 + r)`.
#[must_use]
pub fn skipped_share(threshold: f32, keys: u64) -> f64 {
    let ratio = keys as f64 * f64::from(-threshold).exp();
    ratio / (1.0 + ratio)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Online softmax of one row in f64, which leaves tiles out as kernels do: (O, LSE, keys left out).
    fn row(logits: &[f64], values: &[f64], tile: usize, threshold: f64) -> (f64, f64, u64) {
        let (mut max, mut sum, mut o, mut skipped) = (f64::NEG_INFINITY, 0.0, 0.0, 0);
        for (logits, values) in logits.chunks(tile).zip(values.chunks(tile)).rev() {
            let of_tile = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            if of_tile + threshold <= max {
                skipped += logits.len() as u64;
                continue;
            }
            let grown = of_tile.max(max);
            let factor = f64::exp(max - grown);
            (sum, o, max) = (sum * factor, o * factor, grown);
            for (logit, value) in logits.iter().zip(values) {
                let weight = f64::exp(logit - max);
                (sum, o) = (sum + weight, o + weight * value);
            }
        }
        (o / sum, max + sum.ln(), skipped)
    }

    #[test]
    fn what_is_left_out_is_within_the_bound() {
        // skipped keys have the other end of the range of values; in every second row all reach the threshold
        let mut random = 1_u32;
        let mut uniform = move || {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            f64::from(random >> 8) / f64::from(1 << 24)
        };
        let (tile, mut largest) = (16, 0.0_f64);
        for number in 0..200 {
            let threshold = [2.0_f32, 5.0, 9.0][number % 3];
            // the tile that is visited first has one key of weight
            let stays = |key: usize| key / tile == 9;
            let below = |uniform: f64| if number % 2 == 0 { 1.0 } else { 1.0 + uniform };
            let logit = |key: usize, uniform: f64| match (stays(key), key % tile) {
                (true, 0) => 0.0,
                (true, _) => -30.0,
                _ => -f64::from(threshold) * below(uniform),
            };
            let logits: Vec<f64> = (0..10 * tile).map(|key| logit(key, uniform())).collect();
            let values: Vec<f64> = (0..10 * tile).map(|key| if stays(key) { -1.0 } else { 1.0 }).collect();
            let (exact, exact_lse, none) = row(&logits, &values, tile, f64::INFINITY);
            let (o, lse, skipped) = row(&logits, &values, tile, threshold.into());
            let share = skipped_share(threshold, skipped);
            let error = (o - exact).abs() / 2.0; // values range from -1 to 1
            assert!((none, skipped) == (0, 9 * tile as u64) && error <= share * (1.0 + 1e-9), "{error} of {share}");
            let below = exact_lse - lse;
            assert!((0.0..=-(-share).ln_1p() * (1.0 + 1e-9)).contains(&below), "{below}");
            largest = largest.max(error / share);
        }
        assert!(largest > 0.999, "the bound is reached");
    }

    #[test]
    fn options_that_give_no_bound_are_refused_by_name() {
        let of = |threshold, fixed_split_size, variant: &Variant| {
            let options = AttentionOptions { skip_softmax: threshold, fixed_split_size, ..AttentionOptions::default() };
            options.check_skip_softmax(variant)
        };
        let full = Variant::full();
        assert!(of(Some(8.0), None, &full).is_ok() && of(None, Some(64), &full).is_ok());
        for threshold in [0.0, -1.0, f32::INFINITY, f32::NAN] {
            let error = of(Some(threshold), None, &full).expect_err("no threshold");
            assert!(error.to_string().contains(&format!("skip_softmax = {threshold}")), "{error}");
        }
        let error = of(Some(8.0), Some(64), &full).expect_err("bits of a row");
        assert!(error.to_string().contains("fixed_split_size"), "{error}");
    }
}
