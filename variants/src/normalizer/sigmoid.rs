use attn::lang::{AttentionVariant, LogitIndex, Normalizer};
use attn::{VariantParams, attention_variant};

/// Sigmoid attention: each key is weighted by itself, with no sum over the others.
///
/// `O = sum_j sigmoid(logit_j + bias) v_j`, without a denominator (arXiv 2409.04431, where `bias = -ln(n)` for `n` keys
/// keeps the sum of the weights near that of a softmax). A composition has one normaliser, so it takes no sink and no
/// second normaliser.
#[derive(Clone, Copy, Debug, PartialEq, VariantParams)]
pub struct Sigmoid {
    /// Added to every logit, after all transforms.
    #[default(0.0)]
    #[require(bias.is_finite())]
    pub bias: f32,
}

#[attention_variant(name = "sigmoid")]
impl AttentionVariant for Sigmoid {
    // a sink is a term of the denominator, which there is none of
    const NORMALIZER: Normalizer = Normalizer::Plain { divide: false };

    fn weight(&self, logit: f32, _row_max: f32, _at: LogitIndex) -> f32 {
        // exp overflows to infinity for very negative logits, whose weight is then 0
        (1.0 + (-(logit + self.bias)).exp()).recip()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use attn::Variant;
    use attn::lang::ComposeError;

    #[test]
    fn the_formula() {
        let sigmoid = Sigmoid { bias: -1.0 };
        for logit in [-1e4f32, -100.0, -3.0, 0.0, 1.0, 5.0, 1e4] {
            let want = 1.0 / (1.0 + (-(f64::from(logit) + f64::from(sigmoid.bias))).exp());
            let got = f64::from(sigmoid.weight(logit, 0.0, LogitIndex::default()));
            // weights below the normal numbers of f32 are 0
            assert!((got - want).abs() <= 1e-6 * want + 1e-38, "{logit}: {got} is not {want}");
        }
    }

    #[test]
    fn sinks_and_second_normalisers_are_refused() {
        let sink = crate::Sink { logits: attn::lang::Tensor1::from([0.0]) };
        let error = Variant::from(Sigmoid::default()).and(sink).expect_err("no denominator");
        assert!(matches!(error, ComposeError::SinkWithoutSoftmax { .. }));
        let error = Variant::from(Sigmoid::default()).and(Sigmoid { bias: 1.0 }).expect_err("two");
        assert!(matches!(error, ComposeError::TwoNormalizers { .. }));
    }
}
