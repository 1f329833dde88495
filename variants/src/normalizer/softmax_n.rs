use attn::lang::{AttentionVariant, RowIndex};
use attn::{VariantParams, attention_variant};

/// Softmax-n: `n` is added to the denominator, so that a head may attend to nothing.
///
/// `O = sum_j exp(logit_j) v_j / (n + sum_j exp(logit_j))`: softmax-1 ("Attention Is Off By One", 2023; the zero sink
/// of arXiv 2309.17453) for `n = 1`, softmax itself for `n = 0`. It is a sink of logit `ln(n)`, and LSE includes it.
#[derive(Clone, Copy, Debug, PartialEq, VariantParams)]
pub struct SoftmaxN {
    /// Added to the denominator.
    #[default(1.0)]
    #[require(n >= 0.0 && n.is_finite())]
    pub n: f32,
}

#[attention_variant(name = "softmax_n")]
impl AttentionVariant for SoftmaxN {
    fn sink_logit(&self, _at: RowIndex) -> f32 {
        self.n.ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_formula() {
        let sink = |n| AttentionVariant::sink_logit(&SoftmaxN { n }, RowIndex::default());
        assert_eq!((sink(0.0), sink(1.0)), (f32::NEG_INFINITY, 0.0));
        assert!((f64::from(sink(2.5)) - 2.5f64.ln()).abs() < 1e-7);
    }
}
