use attn::lang::{AttentionVariant, LogitIndex, Normalizer};
use attn::{VariantParams, attention_variant, random};

/// Dropout: probabilities are zeroed at random, and the others grow to make up for it.
///
/// `O = sum_j p_j keep_j v_j / (1 - rate)` with `p = softmax(logits)`; `keep_j` is 0 with probability `rate`, else 1
/// (arXiv 1207.0580; on attention probabilities, arXiv 1706.03762). LSE is that of all keys. `keep` is a function of
/// `seed`, request, query head and the two positions, by a counter-based generator, so it does not depend on the
/// kernel, its tiles, or the device.
#[derive(Clone, Copy, Debug, PartialEq, VariantParams)]
pub struct Dropout {
    /// Probability of dropping a key.
    #[require((0.0..1.0).contains(&rate))]
    pub rate: f32,
    /// Seed of the random numbers.
    #[default(0)]
    pub seed: u32,
}

#[attention_variant(name = "dropout")]
impl AttentionVariant for Dropout {
    const NORMALIZER: Normalizer = Normalizer::MaxScaled;

    fn weight(&self, logit: f32, row_max: f32, at: LogitIndex) -> f32 {
        let stream = (at.batch as u32) << 16 ^ at.qo_head as u32;
        let dropped = random::uniform(self.seed, stream, at.qo_pos as u32, at.kv_pos as u32) < self.rate;
        let grown = 1.0 / (1.0 - self.rate);
        if dropped { 0.0 } else { (logit - row_max).exp() * grown }
    }

    fn denominator(&self, logit: f32, row_max: f32, _weight: f32, _at: LogitIndex) -> f32 {
        (logit - row_max).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use attn::lang::{BindError, Dims, VariantParams};

    #[test]
    fn drop_rate_is_met_and_the_denominator_includes_dropped_keys() {
        let dropout = Dropout { rate: 0.25, seed: 7 };
        let mut kept = 0;
        for (qo_pos, kv_pos) in (0..200).flat_map(|q| (0..200).map(move |k| (q, k))) {
            let at = crate::testing::at(qo_pos, kv_pos);
            let weight = dropout.weight(1.0, 3.0, at);
            let full = (-2f64).exp();
            assert!((f64::from(dropout.denominator(1.0, 3.0, weight, at)) - full).abs() < 1e-7);
            assert!(weight == 0.0 || (f64::from(weight) - full / 0.75).abs() < 1e-7, "{weight}");
            kept += u32::from(weight != 0.0);
        }
        // 40000 draws: four standard deviations are 346
        assert!((29_650..30_350).contains(&kept), "{kept}");
    }

    #[test]
    fn random_patterns_differ_between_heads_requests_and_seeds() {
        let pattern = |seed, batch, qo_head| -> Vec<bool> {
            let weight = |kv_pos| {
                let mut at = crate::testing::at(5, kv_pos);
                (at.row.batch, at.row.qo_head) = (batch, qo_head);
                Dropout { rate: 0.5, seed }.weight(0.0, 0.0, at) == 0.0
            };
            (0..64).map(weight).collect()
        };
        let all = [pattern(0, 0, 0), pattern(1, 0, 0), pattern(0, 1, 0), pattern(0, 0, 1)];
        assert!((0..4).all(|i| (0..i).all(|j| all[i] != all[j])));
        assert_eq!(all[0], pattern(0, 0, 0));
    }

    #[test]
    fn rates_outside_0_to_1_are_refused() {
        for rate in [1.0, -0.5, f32::NAN] {
            let error = Dropout { rate, seed: 0 }.bind(&Dims::default()).expect_err("no rate");
            assert!(matches!(error, BindError::Require { .. }), "{error}");
        }
    }
}
