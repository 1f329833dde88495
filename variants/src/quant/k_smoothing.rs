use attn::lang::{AttentionVariant, KvIndex, Row, Tensor3};
use attn::{VariantParams, attention_variant};

/// Key smoothing: the mean of a head's keys is subtracted from each.
///
/// `k[d] - mean[batch, kv_head, d]`. Softmax ignores a term that all logits of a row share, and the remainder is easier
/// to quantise (SageAttention, arXiv 2410.02367). LSE moves by the logit of the mean.
#[derive(Clone, Debug, PartialEq, VariantParams)]
pub struct KSmoothing {
    /// Mean key, for each request and KV head.
    #[shape(batch, kv_heads, head_dim)]
    #[require(mean.as_slice().iter().all(|x| x.is_finite()))]
    pub mean: Tensor3<f32>,
}

#[attention_variant(name = "k_smoothing")]
impl AttentionVariant for KSmoothing {
    fn key_transform<R: Row>(&self, k: &mut R, at: KvIndex) {
        k.zip(|d| self.mean[[at.batch, at.kv_head, d]], |_, x, mean| x - mean);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_formula() {
        let smoothing =
            KSmoothing { mean: Tensor3::new((0..8).map(|i| i as f32).collect(), [2, 2, 2]).expect("eight") };
        let mut k = [3.0f32, -1.0];
        smoothing.key_transform(&mut k.as_mut_slice(), KvIndex { batch: 1, kv_head: 1, ..KvIndex::default() });
        assert_eq!(k, [-3.0, -8.0]);
    }
}
