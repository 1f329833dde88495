use attn::lang::{AttentionVariant, LogitIndex, Normalizer};
use attn::{VariantParams, attention_variant};

/// ReLU attention: positive logits are weights, and negative ones are none.
///
/// `O = sum_j max(logit_j, 0) v_j / kv_len`, without a denominator over the weights (arXiv 2309.08586). `squared`
/// squares the weights (arXiv 2202.10447). `mean = false` leaves out the division by the number of keys: ReLA (arXiv
/// 2104.07012) normalises the output instead, `relu(mean=false) + output_norm`. A composition has one normaliser, so it
/// takes no sink and no second normaliser.
#[derive(Clone, Copy, Debug, PartialEq, VariantParams)]
pub struct Relu {
    /// Whether weights are squared.
    #[default(false)]
    pub squared: bool,
    /// Whether weights are divided by `kv_len`, the number of keys of the request, masked or not.
    #[default(true)]
    pub mean: bool,
}

#[attention_variant(name = "relu")]
impl AttentionVariant for Relu {
    const NORMALIZER: Normalizer = Normalizer::Plain { divide: false };

    fn weight(&self, logit: f32, _row_max: f32, at: LogitIndex) -> f32 {
        let positive = logit.max(0.0);
        let weight = if self.squared { positive * positive } else { positive };
        let scale = if self.mean { 1.0 / at.kv_len as f32 } else { 1.0 };
        weight * scale
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_formula() {
        let mut at = LogitIndex::default();
        at.row.kv_len = 8;
        let weight = |squared, mean, logit| Relu { squared, mean }.weight(logit, 0.0, at);
        assert_eq!([-3.0, 0.0, 3.0].map(|x| weight(false, false, x)), [0.0, 0.0, 3.0]);
        assert_eq!([-3.0, 0.0, 3.0].map(|x| weight(false, true, x)), [0.0, 0.0, 0.375]);
        assert_eq!([-3.0, 0.0, 3.0].map(|x| weight(true, true, x)), [0.0, 0.0, 1.125]);
    }
}
