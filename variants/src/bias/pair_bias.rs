use attn::lang::{AttentionVariant, LogitIndex, Tensor4};
use attn::{VariantParams, attention_variant};
use half::bf16;

/// Pair bias: a number for each request, head, query and key is added to logits.
///
/// `logit + bias[batch, qo_head, qo_row, kv_pos]`. With `output_gate` it is the triangle and pair-biased attention of
/// AlphaFold (Nature 596, 583; arXiv 2404.11068 on its kernels). The tensor is as large as the logits, and each element
/// is read once. Queries and keys past its rows and columns use the last ones.
#[derive(Clone, Debug, PartialEq, VariantParams)]
pub struct PairBias {
    /// Queries that the bias has rows for, counted within each request's queries.
    #[require(rows >= 1)]
    pub rows: i32,
    /// Keys that the bias has columns for.
    #[require(columns >= 1)]
    pub columns: i32,
    /// Added to logits, in natural-log units.
    #[shape(batch, qo_heads, rows, columns)]
    pub bias: Tensor4<bf16>,
}

#[attention_variant(name = "pair_bias")]
impl AttentionVariant for PairBias {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        logit + self.bias[[at.batch, at.qo_head, at.qo_row, at.kv_pos]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_formula() {
        let values = (0..2 * 2 * 3 * 4).map(|i| i as f32).collect();
        let bias = PairBias { rows: 3, columns: 4, bias: Tensor4::from_values(values, [2, 2, 3, 4]).expect("48") };
        let mut at = crate::testing::at(100, 3);
        (at.row.batch, at.row.qo_row) = (1, 2);
        assert_eq!(bias.logits_transform(0.5, at), 0.5 + (24 + 2 * 4 + 3) as f32);
        at.row.qo_head = 1;
        assert_eq!(bias.logits_transform(0.5, at), 0.5 + (24 + 12 + 2 * 4 + 3) as f32);
    }
}
