use attn::lang::{AttentionVariant, Dims, KvIndex, Row, Tensor1};
use attn::{VariantParams, attention_variant};

/// Value norm: values are normalised to unit mean square before they are summed.
///
/// `v[d] * weight[d] / sqrt(mean(v^2) + eps)` over a head (RMSNorm, arXiv 1910.07467; on values, without weights, in
/// Gemma 3n). The cache must hold values that are not normalised yet.
#[derive(Clone, Debug, PartialEq, VariantParams)]
pub struct ValueNorm {
    /// Weights, one per element of a head.
    #[shape(value_dim)]
    #[default(ones)]
    #[require(weight.as_slice().iter().all(|x| x.is_finite()))]
    pub weight: Tensor1<f32>,
    /// Added to the mean square, against division by zero.
    #[default(1e-6)]
    #[require(eps >= 0.0 && eps.is_finite())]
    pub eps: f32,
}

#[attention_variant(name = "value_norm")]
impl AttentionVariant for ValueNorm {
    fn value_transform<R: Row>(&self, v: &mut R, _at: KvIndex) {
        let mean = v.sum_sq() / v.dim() as f32;
        let inv = 1.0 / (mean + self.eps).sqrt();
        v.map(|d, x| x * inv * self.weight[d]);
    }
}

fn ones(_: &ValueNorm, dims: &Dims) -> Vec<f32> {
    vec![1.0; dims.value_dim.and_then(|n| usize::try_from(n).ok()).unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_formula() {
        let norm = ValueNorm { weight: Tensor1::from([1.0, 2.0, -3.0]), eps: 0.5 };
        let row = [3.0f32, -1.0, 0.5];
        let mut v = row;
        norm.value_transform(&mut v.as_mut_slice(), KvIndex::default());
        let rms = (row.iter().map(|&x| f64::from(x * x)).sum::<f64>() / 3.0 + 0.5).sqrt();
        for d in 0..3 {
            assert!((f64::from(v[d]) - f64::from(row[d]) / rms * [1.0, 2.0, -3.0][d]).abs() < 1e-6);
        }
    }
}
