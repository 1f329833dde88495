use attn::lang::{AttentionVariant, OutTensor1, Row, RowIndex, RowState};
use attn::{VariantParams, attention_variant};

/// Max logit: the largest logit of each head is written out, as QK-clip wants it.
///
/// `max[qo_head] = max(max[qo_head], logits attended to)` over all queries of the batch, sinks included; the attention
/// output does not change (MuonClip, arXiv 2507.20534, shrinks the projections of heads whose maximum is too large). It
/// costs one atomic operation per row. Initialise `max` to negative infinity.
#[derive(Clone, Debug, PartialEq, VariantParams)]
pub struct MaxLogit {
    /// The largest logit of each query head, in natural-log units.
    #[shape(qo_heads)]
    pub max: OutTensor1,
}

#[attention_variant(name = "max_logit")]
impl AttentionVariant for MaxLogit {
    fn output_transform<R: Row>(&self, _o: &mut R, state: RowState, at: RowIndex) {
        self.max.atomic_max(at.qo_head, state.row_max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_maximum_over_queries_is_kept() {
        let max = MaxLogit { max: OutTensor1::filled(f32::NEG_INFINITY, [2]).expect("two") };
        for row_max in [-3.0, 2.0, -1.0] {
            let state = RowState { row_max, denominator: 1.0, lse: row_max };
            let row = RowIndex { qo_head: 1, ..RowIndex::default() };
            max.output_transform(&mut [0.0f32].as_mut_slice(), state, row);
        }
        assert_eq!(max.max.to_vec(), [f32::NEG_INFINITY, 2.0]);
    }
}
