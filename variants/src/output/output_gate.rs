use attn::lang::{AttentionVariant, Row, RowIndex, RowState, Tensor3};
use attn::{VariantParams, attention_variant};
use half::bf16;

/// Output gate: every value of the output is multiplied by the sigmoid of a gate of its own.
///
/// `o[d] * sigmoid(gate[qo_token, qo_head, d])`, on the finished output (gated attention, arXiv 2505.06708, in
/// Qwen3-Next; AlphaFold's attention, with `pair_bias`). Gates are logits, indexed like queries.
#[derive(Clone, Debug, PartialEq, VariantParams)]
pub struct OutputGate {
    /// Logits of the gates, one per element of the output.
    #[shape(qo_tokens, qo_heads, value_dim)]
    pub gate: Tensor3<bf16>,
}

#[attention_variant(name = "output_gate")]
impl AttentionVariant for OutputGate {
    fn output_transform<R: Row>(&self, o: &mut R, _state: RowState, at: RowIndex) {
        o.zip(|d| self.gate[[at.qo_token, at.qo_head, d]], |_, x, gate| x * (1.0 + (-gate).exp()).recip());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_formula() {
        let gates = [0.0f32, 9.0, -2.0, 0.5, 300.0, -300.0];
        let gate = OutputGate { gate: Tensor3::from_values(gates.to_vec(), [3, 1, 2]).expect("six") };
        let state = RowState { row_max: 0.0, denominator: 1.0, lse: 0.0 };
        for qo_token in 0..3 {
            let mut o = [3.0f32, -1.0];
            gate.output_transform(&mut o.as_mut_slice(), state, RowIndex { qo_token, ..RowIndex::default() });
            for (d, x) in [3.0f64, -1.0].into_iter().enumerate() {
                let want = x / (1.0 + (-f64::from(gates[qo_token as usize * 2 + d])).exp());
                assert!((f64::from(o[d]) - want).abs() <= 1e-6, "{} is not {want}", o[d]);
            }
        }
    }
}
