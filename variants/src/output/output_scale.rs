use attn::lang::{AttentionVariant, Row, RowIndex, RowState, Tensor1};
use attn::{VariantParams, attention_variant};

/// Output scale: each head's output is divided by a number, as before it is quantised.
///
/// `o / scale[qo_head]`. An FP8 output (arXiv 2209.05433) takes the largest magnitude divided by that of the format.
#[derive(Clone, Debug, PartialEq, VariantParams)]
pub struct OutputScale {
    /// The divisor for each query head.
    #[shape(qo_heads)]
    #[require(scale.as_slice().iter().all(|x| *x != 0.0 && x.is_finite()))]
    pub scale: Tensor1<f32>,
}

#[attention_variant(name = "output_scale")]
impl AttentionVariant for OutputScale {
    fn output_transform<R: Row>(&self, o: &mut R, _state: RowState, at: RowIndex) {
        let inv = 1.0 / self.scale[at.qo_head];
        o.map(|_, x| x * inv);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_formula() {
        let scale = OutputScale { scale: Tensor1::from([1.0, 0.25]) };
        let mut o = [3.0f32, -1.0];
        let state = RowState { row_max: 0.0, denominator: 1.0, lse: 0.0 };
        scale.output_transform(&mut o.as_mut_slice(), state, RowIndex { qo_head: 1, ..RowIndex::default() });
        assert_eq!(o, [12.0, -4.0]);
    }
}
