use attn::lang::{AttentionVariant, Row, RowIndex, RowState, Tensor2};
use attn::{VariantParams, attention_variant};
use half::bf16;

/// Head gate: each head's output is multiplied by the sigmoid of a gate of its query.
///
/// `o * sigmoid(gate[qo_token, qo_head])`, on the finished output: gated attention with one gate per head (arXiv
/// 2505.06708). Gates are logits, indexed like queries.
#[derive(Clone, Debug, PartialEq, VariantParams)]
pub struct HeadGate {
    /// Logits of the gates, one per query token and head.
    #[shape(qo_tokens, qo_heads)]
    pub gate: Tensor2<bf16>,
}

#[attention_variant(name = "head_gate")]
impl AttentionVariant for HeadGate {
    fn output_transform<R: Row>(&self, o: &mut R, _state: RowState, at: RowIndex) {
        let open = (1.0 + (-self.gate[[at.qo_token, at.qo_head]]).exp()).recip();
        o.map(|_, x| x * open);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_formula() {
        let gate = HeadGate { gate: Tensor2::from_values(vec![0.0, 9.0, -2.0, 0.5], [2, 2]).expect("four") };
        let state = RowState { row_max: 0.0, denominator: 1.0, lse: 0.0 };
        let mut o = [3.0f32, -1.0];
        gate.output_transform(&mut o.as_mut_slice(), state, RowIndex { qo_token: 1, ..RowIndex::default() });
        let open = 1.0 / (1.0 + 2f64.exp());
        assert!((f64::from(o[0]) - 3.0 * open).abs() < 1e-6 && (f64::from(o[1]) + open).abs() < 1e-6);
    }
}
