use attn::lang::{AttentionVariant, Dims, KvIndex, Row, RowIndex, Tensor1};
use attn::{VariantParams, attention_variant};

/// Cosine attention: logits are the cosine of query and key, times a learnt scale per head.
///
/// `logit = sm_scale * min(exp(log_scale[qo_head]), max_scale) * (q . k) / (|q| |k|)` (Swin Transformer V2, arXiv
/// 2111.09883, whose logits are these for `sm_scale = 1`). A row of zeros stays zero. The cache must hold keys that are
/// not normalised yet.
#[derive(Clone, Debug, PartialEq, VariantParams)]
pub struct Cosine {
    /// Natural logarithm of the scale, for each query head.
    #[shape(qo_heads)]
    #[default(tens)]
    #[require(log_scale.as_slice().iter().all(|x| x.is_finite()))]
    pub log_scale: Tensor1<f32>,
    /// Largest scale.
    #[default(100.0)]
    #[require(max_scale > 0.0 && max_scale.is_finite())]
    pub max_scale: f32,
}

#[attention_variant(name = "cosine")]
impl AttentionVariant for Cosine {
    fn query_transform<R: Row>(&self, q: &mut R, at: RowIndex) {
        let scale = self.log_scale[at.qo_head].exp().min(self.max_scale) / q.sum_sq().sqrt().max(1e-12);
        q.map(|_, x| x * scale);
    }

    fn key_transform<R: Row>(&self, k: &mut R, _at: KvIndex) {
        let inv = 1.0 / k.sum_sq().sqrt().max(1e-12);
        k.map(|_, x| x * inv);
    }
}

/// A scale of ten for every head: the value at which training begins.
fn tens(_: &Cosine, dims: &Dims) -> Vec<f32> {
    vec![10f64.ln() as f32; dims.qo_heads.and_then(|n| usize::try_from(n).ok()).unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_formula() {
        let cosine = Cosine { log_scale: Tensor1::from([1.5, 9.0]), max_scale: 50.0 };
        let (q, k) = ([3.0f32, -1.0, 0.5], [0.25f32, 2.0, -8.0]);
        let norm = |x: &[f32; 3]| x.iter().map(|&x| f64::from(x * x)).sum::<f64>().sqrt();
        for (qo_head, scale) in [(0, 1.5f64.exp()), (1, 50.0)] {
            let (mut got_q, mut got_k) = (q, k);
            cosine.query_transform(&mut got_q.as_mut_slice(), RowIndex { qo_head, ..RowIndex::default() });
            cosine.key_transform(&mut got_k.as_mut_slice(), KvIndex::default());
            for d in 0..3 {
                assert!((f64::from(got_q[d]) - f64::from(q[d]) * scale / norm(&q)).abs() < 1e-5);
                assert!((f64::from(got_k[d]) - f64::from(k[d]) / norm(&k)).abs() < 1e-6);
            }
        }
    }

    #[test]
    fn a_row_of_zeros_stays_zero() {
        let mut k = [0.0f32; 2];
        Cosine::default().key_transform(&mut k.as_mut_slice(), KvIndex::default());
        assert_eq!(k, [0.0; 2]);
    }
}
