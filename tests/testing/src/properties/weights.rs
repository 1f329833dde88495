//! Weights under `MaxScaled` scale with the maximum: `f(s, m) = e^-m f(s, 0)`.

use crate::TestError;
use attn::Variant;
use attn_core::lang::{LogitIndex, Normalizer, RowIndex};

use super::{samples, violated};

/// The tolerance, relative to `e^-m` and `e^(s - m)`: f32 rounding, and cancellation inside a weight.
const TOLERANCE: f64 = 3e-5;

/// Evaluates `weight` and `denominator` at random logits under two maxima. Variants with another normaliser pass.
///
/// # Errors
///
/// The first pair of maxima under which they disagree.
pub fn weights(variant: &Variant) -> Result<(), TestError> {
    if variant.normalizer() != Normalizer::MaxScaled {
        return Ok(());
    }
    for sample in samples(variant, 100) {
        let mut sample = sample?;
        let variant = &sample.variant;
        let mut uniform =
            |from: f64, to: f64| from + (to - from) * (sample.random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        let (kv_pos, qo_row) = (uniform(0.0, 500.0) as i32, uniform(0.0, 30.0) as i32);
        let row =
            RowIndex { qo_row, qo_pos: qo_row + 470, qo_token: qo_row, qo_len: 30, kv_len: 500, ..RowIndex::default() };
        let at = LogitIndex { row, kv_pos, kv_token: kv_pos, kv_slot: 0 };
        let logit = uniform(-12.0, 12.0) as f32;
        let least = logit.max(variant.max_floor());
        let maxima = [least, least + uniform(0.0, 8.0) as f32];
        let scaled = maxima.map(|row_max| {
            let (mut weight, mut denominator) = ([logit], [logit]);
            variant.weight_tile(&mut weight, row_max, at);
            variant.denominator_tile(&mut denominator, &weight, row_max, at);
            [weight[0], denominator[0]].map(|x| f64::from(x) * f64::from(row_max - least).exp())
        });
        let may = TOLERANCE
            * (f64::from(-least).exp() + f64::from(logit - least).exp())
            * f64::from(maxima[1] - least).exp().sqrt();
        for (i, hook) in ["weight", "denominator"].into_iter().enumerate() {
            let [a, b] = scaled.map(|values| values[i]);
            let near = (a - b).abs() <= may.max(TOLERANCE * a.abs());
            if !near {
                let why = format!(
                    "`{hook}` of logit {logit}: {a:e} at row_max {}, {b:e} at {}, both times e^(row_max - {least})",
                    maxima[0], maxima[1]
                );
                return Err(violated("not homogeneous: f(s, m) must be e^-m f(s, 0)", why));
            }
        }
    }
    Ok(())
}
