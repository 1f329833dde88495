use attn::lang::{AttentionVariant, Dims, Row, RowIndex, RowState, Tensor1};
use attn::{VariantParams, attention_variant};

/// Output norm: each head's output is normalised to unit mean square.
///
/// `o[d] * weight[d] * scale / sqrt(mean(o^2) + eps)` over a head, on the finished output: the sub-layer norm of
/// Magneto (arXiv 2210.06423) and of the differential transformer (arXiv 2410.05258, where `scale = 1 - lambda_init`).
#[derive(Clone, Debug, PartialEq, VariantParams)]
pub struct OutputNorm {
    /// Weights, one per element of a head.
    #[shape(value_dim)]
    #[default(ones)]
    #[require(weight.as_slice().iter().all(|x| x.is_finite()))]
    pub weight: Tensor1<f32>,
    /// Added to the mean square, against division by zero.
    #[default(1e-5)]
    #[require(eps >= 0.0 && eps.is_finite())]
    pub eps: f32,
    /// Factor of the result.
    #[default(1.0)]
    #[require(scale.is_finite())]
    pub scale: f32,
}

#[attention_variant(name = "output_norm")]
impl AttentionVariant for OutputNorm {
    fn output_transform<R: Row>(&self, o: &mut R, _state: RowState, _at: RowIndex) {
        let mean = o.sum_sq() / o.dim() as f32;
        let inv = self.scale / (mean + self.eps).sqrt();
        o.map(|d, x| x * inv * self.weight[d]);
    }
}

fn ones(_: &OutputNorm, dims: &Dims) -> Vec<f32> {
    vec![1.0; dims.value_dim.and_then(|n| usize::try_from(n).ok()).unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_formula() {
        let norm = OutputNorm { weight: Tensor1::from([1.0, 2.0, -3.0]), eps: 0.5, scale: 0.25 };
        let row = [3.0f32, -1.0, 0.5];
        let mut o = row;
        let state = RowState { row_max: 0.0, denominator: 1.0, lse: 0.0 };
        norm.output_transform(&mut o.as_mut_slice(), state, RowIndex::default());
        let rms = (row.iter().map(|&x| f64::from(x * x)).sum::<f64>() / 3.0 + 0.5).sqrt();
        for d in 0..3 {
            let want = f64::from(row[d]) / rms * [1.0, 2.0, -3.0][d] * 0.25;
            assert!((f64::from(o[d]) - want).abs() < 1e-6);
        }
    }
}
