use attn::lang::{AttentionVariant, Dims, KvIndex, Row, RowIndex, Tensor1};
use attn::{VariantParams, attention_variant};

/// QK norm: queries and keys are normalised to unit mean square before the product.
///
/// `x[d] * (offset + w[d]) / sqrt(mean(x^2) + eps)` over a head, with one weight per element of a head (RMSNorm, arXiv
/// 1910.07467; on queries and keys as in Qwen3 and OLMo 2). By default `offset + w[d]` is 1, as in Llama 4. Gemma 3
/// stores its weights less one: `offset = 1`. The norm comes first in Qwen3 and Gemma 3, `qk_norm + rope`, and last in
/// Llama 4, `rope(interleaved=true) + qk_norm`. The cache must hold keys that are not normalised yet.
#[derive(Clone, Debug, PartialEq, VariantParams)]
pub struct QkNorm {
    /// Weights of queries, one per element of a head.
    #[shape(head_dim)]
    #[default(ones)]
    #[require(q_weight.as_slice().iter().all(|x| x.is_finite()))]
    pub q_weight: Tensor1<f32>,
    /// Weights of keys, one per element of a head.
    #[shape(head_dim)]
    #[default(ones)]
    #[require(k_weight.as_slice().iter().all(|x| x.is_finite()))]
    pub k_weight: Tensor1<f32>,
    /// Added to the mean square, against division by zero.
    #[default(1e-6)]
    #[require(eps >= 0.0 && eps.is_finite())]
    pub eps: f32,
    /// Added to every weight.
    #[default(0.0)]
    #[require(offset.is_finite())]
    pub offset: f32,
}

#[attention_variant(name = "qk_norm")]
impl AttentionVariant for QkNorm {
    fn query_transform<R: Row>(&self, q: &mut R, _at: RowIndex) {
        let mean = q.sum_sq() / q.dim() as f32;
        let inv = 1.0 / (mean + self.eps).sqrt();
        q.map(|d, x| x * inv * (self.offset + self.q_weight[d]));
    }

    fn key_transform<R: Row>(&self, k: &mut R, _at: KvIndex) {
        let mean = k.sum_sq() / k.dim() as f32;
        let inv = 1.0 / (mean + self.eps).sqrt();
        k.map(|d, x| x * inv * (self.offset + self.k_weight[d]));
    }
}

fn ones(norm: &QkNorm, dims: &Dims) -> Vec<f32> {
    vec![1.0 - norm.offset; dims.head_dim.and_then(|n| usize::try_from(n).ok()).unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use attn::lang::{BindError, VariantParams};

    #[test]
    fn the_formula() {
        let mut norm = QkNorm { k_weight: Tensor1::from([1.0, 2.0, 3.0, 4.0]), eps: 0.5, ..QkNorm::default() };
        norm.bind(&Dims { head_dim: Some(4), ..Dims::default() }).expect("valid");
        let row = [3.0f32, -1.0, 0.5, 2.0];
        let rms = (row.iter().map(|&x| f64::from(x * x)).sum::<f64>() / 4.0 + 0.5).sqrt();
        let (mut q, mut k) = (row, row);
        norm.query_transform(&mut q.as_mut_slice(), RowIndex::default());
        norm.key_transform(&mut k.as_mut_slice(), KvIndex::default());
        for d in 0..4 {
            let want = f64::from(row[d]) / rms;
            assert!((f64::from(q[d]) - want).abs() < 1e-6);
            assert!((f64::from(k[d]) - want * (d + 1) as f64).abs() < 1e-6);
        }
    }

    #[test]
    fn offset_is_added_to_weights() {
        let dims = Dims { head_dim: Some(2), ..Dims::default() };
        let mut plain = QkNorm { q_weight: Tensor1::from([1.5, 0.25]), ..QkNorm::default() };
        let mut gemma = QkNorm { q_weight: Tensor1::from([0.5, -0.75]), offset: 1.0, ..QkNorm::default() };
        for norm in [&mut plain, &mut gemma] {
            norm.bind(&dims).expect("valid");
        }
        let rows = [&plain, &gemma].map(|norm| {
            let (mut q, mut k) = ([3.0f32, -4.0], [3.0f32, -4.0]);
            norm.query_transform(&mut q.as_mut_slice(), RowIndex::default());
            norm.key_transform(&mut k.as_mut_slice(), KvIndex::default());
            (q, k)
        });
        assert_eq!(rows[0], rows[1]);
    }

    #[test]
    fn a_row_of_zeros_stays_zero() {
        let mut norm = QkNorm::default();
        norm.bind(&Dims { head_dim: Some(2), ..Dims::default() }).expect("valid");
        let mut q = [0.0f32; 2];
        norm.query_transform(&mut q.as_mut_slice(), RowIndex::default());
        assert_eq!(q, [0.0; 2]);
    }

    #[test]
    fn weights_have_one_value_per_element() {
        let mut norm = QkNorm { q_weight: Tensor1::from([1.0; 64]), ..QkNorm::default() };
        let error = norm.bind(&Dims { head_dim: Some(128), ..Dims::default() }).expect_err("64 weights");
        assert!(matches!(error, BindError::Shape { .. }), "{error}");
    }
}
