use attn::lang::{AttentionVariant, Row, RowIndex, RowState, Tensor1, Tensor3};
use attn::{VariantParams, attention_variant};

/// Differential attention, its second run: the output of the first minus its own, normalised by rows.
///
/// Two runs over the two halves of queries and keys, and the same values, give
/// `(softmax(q1 k1) - lambda softmax(q2 k2)) v`, then an RMS norm over the row of a head, times `1 - lambda_init`
/// (arXiv 2410.05258): `y = first - lambda o`, `y * scale * weight[d] / sqrt(mean(y^2) + eps)`. The first run has the
/// same variant without this part; its output is the parameter tensor `first`.
#[derive(Clone, Debug, PartialEq, VariantParams)]
pub struct Differential {
    /// Factor of the second softmax.
    #[require(lambda.is_finite())]
    pub lambda: f32,
    /// Multiplies the result: `1 - lambda_init`.
    #[require(scale.is_finite())]
    pub scale: f32,
    /// Added to the mean square.
    #[default(1e-5)]
    #[require(eps >= 0.0)]
    pub eps: f32,
    /// Weights of the norm.
    #[shape(value_dim)]
    pub weight: Tensor1<f32>,
    /// The output of the first run.
    #[shape(qo_tokens, qo_heads, value_dim)]
    pub first: Tensor3<f32>,
}

#[attention_variant(name = "differential")]
impl AttentionVariant for Differential {
    fn output_transform<R: Row>(&self, o: &mut R, _state: RowState, at: RowIndex) {
        o.zip(|d| self.first[[at.qo_token, at.qo_head, d]], |_, x, first| first - self.lambda * x);
        let inv = self.scale / (o.sum_sq() / o.dim() as f32 + self.eps).sqrt();
        o.map(|d, x| x * inv * self.weight[d]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_formula() {
        let first = Tensor3::new(vec![1.0, 2.0, 5.0, -7.0], [2, 1, 2]).expect("four");
        let part = Differential { lambda: 0.5, scale: 0.2, eps: 1e-5, weight: [3.0, 1.0].into(), first };
        let mut o = [4.0f32, -2.0];
        let state = RowState { row_max: 0.0, denominator: 1.0, lse: 0.0 };
        part.output_transform(&mut o.as_mut_slice(), state, RowIndex { qo_token: 1, ..RowIndex::default() });
        let y = [5.0 - 0.5 * 4.0, -7.0 + 0.5 * 2.0f64];
        let root = ((y[0] * y[0] + y[1] * y[1]) / 2.0 + 1e-5).sqrt();
        for (got, want) in o.into_iter().zip([0.2 * 3.0 * y[0] / root, 0.2 * y[1] / root]) {
            assert!((f64::from(got) - want).abs() < 1e-6, "{got} is not {want}");
        }
    }
}
