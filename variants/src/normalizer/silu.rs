use attn::lang::{AttentionVariant, LogitIndex, Normalizer};
use attn::{VariantParams, attention_variant};

/// SiLU attention: the SiLU of a logit is its weight, with no sum over the others.
///
/// `O = sum_j silu(logit_j) v_j / n` with `silu(x) = x sigmoid(x)`: the pointwise attention of HSTU (arXiv 2402.17152),
/// whose logits `q . k` have no factor, so give the attention a scale of 1; its bias by position is `relative_bias`.
/// Weights may be negative. A composition has one normaliser, so it takes no sink and no second normaliser.
#[derive(Clone, Copy, Debug, PartialEq, VariantParams)]
pub struct Silu {
    /// What weights are divided by: the length to which HSTU pads its sequences. 0: the number of keys of the request,
    /// masked or not.
    #[default(0)]
    #[require(n >= 0)]
    pub n: i32,
}

#[attention_variant(name = "silu")]
impl AttentionVariant for Silu {
    const NORMALIZER: Normalizer = Normalizer::Plain { divide: false };

    fn weight(&self, logit: f32, _row_max: f32, at: LogitIndex) -> f32 {
        let count = if self.n > 0 { self.n } else { at.kv_len };
        // exp overflows to infinity for very negative logits, whose weight is then 0
        logit * (1.0 + (-logit).exp()).recip() * (1.0 / count as f32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_formula() {
        let mut at = LogitIndex::default();
        at.row.kv_len = 8;
        for (n, count) in [(0, 8.0), (3, 3.0)] {
            for logit in [-1e4f32, -100.0, -3.0, 0.0, 1.0, 5.0, 1e4] {
                let x = f64::from(logit);
                let want = x / (1.0 + (-x).exp()) / count;
                let got = f64::from(Silu { n }.weight(logit, 0.0, at));
                assert!((got - want).abs() <= 1e-6 * want.abs() + 1e-38, "{logit}: {got} is not {want}");
            }
        }
    }
}
