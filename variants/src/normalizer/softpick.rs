use attn::lang::{AttentionVariant, LogitIndex, Normalizer};
use attn::{VariantParams, attention_variant};

/// Softpick: a softmax that gives nothing to negative logits, and whose weights need not sum to one.
///
/// `w_j = max(exp(logit_j) - 1, 0) / sum_k |exp(logit_k) - 1|` (arXiv 2504.20966), without the paper's epsilon: a row
/// whose logits are all zero gives 0. LSE is the logarithm of the denominator. Both sums are scaled by `exp(-m)`, where
/// `m` is the largest logit, or 0 if that is less.
#[derive(Clone, Copy, Debug, PartialEq, VariantParams)]
pub struct Softpick;

#[attention_variant(name = "softpick")]
impl AttentionVariant for Softpick {
    const NORMALIZER: Normalizer = Normalizer::MaxScaled;
    const MAX_FLOOR: f32 = 0.0;

    fn weight(&self, logit: f32, row_max: f32, _at: LogitIndex) -> f32 {
        ((logit - row_max).exp() - (-row_max).exp()).max(0.0)
    }

    fn denominator(&self, logit: f32, row_max: f32, _weight: f32, _at: LogitIndex) -> f32 {
        ((logit - row_max).exp() - (-row_max).exp()).abs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_formula() {
        for logit in [-50.0f32, -1.0, 0.0, 0.5, 3.0] {
            for row_max in [0.0f32, 3.0, 40.0] {
                let exact = (f64::from(logit).exp() - 1.0) * (-f64::from(row_max)).exp();
                let weight = Softpick.weight(logit, row_max, LogitIndex::default());
                let denominator = Softpick.denominator(logit, row_max, weight, LogitIndex::default());
                assert!((f64::from(weight) - exact.max(0.0)).abs() <= 2e-7);
                assert!((f64::from(denominator) - exact.abs()).abs() <= 2e-7);
            }
        }
    }
}
