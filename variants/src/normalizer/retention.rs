use attn::lang::{AttentionVariant, Dims, LogitIndex, Normalizer, Row, RowIndex, RowState, Tensor1};
use attn::{VariantParams, attention_variant};

/// Retention: logits are weights as they are, and fade with distance; compose it with `causal`.
///
/// `w_j = logit_j * exp(log_decay[qo_head] * (qo_pos - kv_pos))` and `O = sum_j w_j v_j / max(|sum_j w_j|, 1)`: RetNet
/// in its parallel form, with the score normalisation of section 2.1 (arXiv 2307.08621). The default decays are the
/// paper's, `ln(1 - 2^(-5 - h))` for head `h`. There is no row max: LSE is the logarithm of the sum, or `-inf` if the
/// sum is not positive.
#[derive(Clone, Debug, PartialEq, VariantParams)]
pub struct Retention {
    /// Natural logarithm of the decay per position, for each query head.
    #[shape(qo_heads)]
    #[default(paper_decays)]
    #[require(log_decay.as_slice().iter().all(|&x| x <= 0.0 && x.is_finite()))]
    pub log_decay: Tensor1<f32>,
}

#[attention_variant(name = "retention")]
impl AttentionVariant for Retention {
    const NORMALIZER: Normalizer = Normalizer::Plain { divide: false };

    fn weight(&self, logit: f32, _row_max: f32, at: LogitIndex) -> f32 {
        logit * (self.log_decay[at.qo_head] * (at.qo_pos - at.kv_pos) as f32).exp()
    }

    fn output_transform<R: Row>(&self, o: &mut R, state: RowState, _at: RowIndex) {
        let inv = 1.0 / state.denominator.abs().max(1.0);
        o.map(|_, x| x * inv);
    }
}

fn paper_decays(_: &Retention, dims: &Dims) -> Vec<f32> {
    (0..dims.qo_heads.unwrap_or(0)).map(|head| (-(-5.0 - head as f64).exp2()).ln_1p() as f32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use attn::lang::VariantParams;

    #[test]
    fn the_formula() {
        let mut retention = Retention::default();
        retention.bind(&Dims { qo_heads: Some(2), ..Dims::default() }).expect("decays have a default");
        for (logit, distance) in [(2.0f32, 0), (-3.5, 1), (0.5, 40)] {
            let mut at = crate::testing::at(distance, 0);
            at.row.qo_head = 1;
            let want = f64::from(logit) * (1.0 - 1.0 / 64.0f64).powi(distance);
            assert!((f64::from(retention.weight(logit, 0.0, at)) - want).abs() <= 1e-6 * want.abs());
        }
    }

    #[test]
    fn the_divisor_is_at_least_one() {
        let output = |denominator| {
            let mut o = [3.0f32];
            let state = RowState { row_max: 0.0, denominator, lse: 0.0 };
            Retention::default().output_transform(&mut o.as_mut_slice(), state, RowIndex::default());
            o[0]
        };
        assert_eq!([0.0, 0.5, -0.5, 2.0, -6.0].map(output), [3.0, 3.0, 3.0, 1.5, 0.5]);
    }
}
