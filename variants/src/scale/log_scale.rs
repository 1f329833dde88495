use attn::lang::{AttentionVariant, Dims, Row, RowIndex, Tensor1};
use attn::{VariantParams, attention_variant};

/// Log scale: logits grow with the logarithm of the number of keys up to the query.
///
/// `logit * scale[qo_head] * ln(max(qo_pos + 1, min_len))`, applied to the query. Two models have this form:
///
/// - Scalable softmax (SSMax, arXiv 2501.19399) is `log_scale(scale=[..])` with its learnt scale per head.
/// - Qwen's log-n attention (arXiv 2309.16609) is `log_scale(min_len=2048)`, where 2048 is the training length and the
///   default scale is `1 / ln(min_len)`: queries within that length keep their logits, later ones are multiplied by the
///   logarithm to the base of that length.
#[derive(Clone, Debug, PartialEq, VariantParams)]
pub struct LogScale {
    /// Least number of keys that counts.
    #[default(1)]
    #[require(min_len >= 1)]
    pub min_len: i32,
    /// Factor of the logarithm, for each query head.
    #[shape(qo_heads)]
    #[default(inverse_logarithm)]
    #[require(scale.as_slice().iter().all(|x| x.is_finite()))]
    pub scale: Tensor1<f32>,
}

#[attention_variant(name = "log_scale")]
impl AttentionVariant for LogScale {
    fn query_transform<R: Row>(&self, q: &mut R, at: RowIndex) {
        let len = (at.qo_pos + 1).max(self.min_len) as f32;
        let scale = self.scale[at.qo_head] * len.ln();
        q.map(|_, x| x * scale);
    }
}

/// `1 / ln(min_len)`, so that the factor is 1 up to `min_len`; 1 without a `min_len`.
fn inverse_logarithm(variant: &LogScale, dims: &Dims) -> Vec<f32> {
    let scale = if variant.min_len > 1 { 1.0 / f64::from(variant.min_len).ln() } else { 1.0 };
    vec![scale as f32; dims.qo_heads.and_then(|n| usize::try_from(n).ok()).unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use attn::lang::VariantParams;

    fn factor(mut variant: LogScale, qo_pos: i32) -> f64 {
        variant.bind(&Dims { qo_heads: Some(2), ..Dims::default() }).expect("valid");
        let mut q = [2.0f32];
        variant.query_transform(&mut q.as_mut_slice(), RowIndex { qo_pos, qo_head: 1, ..RowIndex::default() });
        f64::from(q[0]) / 2.0
    }

    #[test]
    fn scalable_softmax() {
        let variant = || LogScale { scale: Tensor1::from([9.0, 0.43]), ..LogScale::default() };
        for qo_pos in [0, 1, 99, 100_000] {
            let want = f64::from(0.43f32) * f64::from(qo_pos + 1).ln();
            assert!((factor(variant(), qo_pos) - want).abs() <= 1e-6 * want.abs());
        }
    }

    #[test]
    fn log_n_attention_begins_at_the_training_length() {
        let variant = || LogScale { min_len: 2048, ..LogScale::default() };
        for qo_pos in [0, 1000, 2047, 2048, 8191] {
            let want = f64::from(qo_pos + 1).ln() / 2048f64.ln();
            assert!((factor(variant(), qo_pos) - want.max(1.0)).abs() < 1e-6, "{qo_pos}");
        }
    }
}
