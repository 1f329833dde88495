use attn::lang::{AttentionVariant, LogitIndex, Tensor1};
use attn::{VariantParams, attention_variant};

/// FlashMask: two intervals of queries that do not see a key, for each key.
///
/// A query does not attend to key `j` where `lower_start[j] <= qo_pos < lower_end[j]` or
/// `upper_start[j] <= qo_pos < upper_end[j]` (arXiv 2410.01359). In the paper the first interval lies below the
/// diagonal and the second above it; neither is required here. Causal, document, prefix and shared-question masks have
/// this form.
#[derive(Clone, Debug, PartialEq, VariantParams)]
pub struct FlashMask {
    /// For each key token, the first query position below the diagonal that does not attend to it.
    #[shape(kv_tokens)]
    pub lower_start: Tensor1<i32>,
    /// For each key token, one past the last such position.
    #[shape(kv_tokens)]
    pub lower_end: Tensor1<i32>,
    /// For each key token, the first query position above the diagonal that does not attend to it.
    #[shape(kv_tokens)]
    pub upper_start: Tensor1<i32>,
    /// For each key token, one past the last such position.
    #[shape(kv_tokens)]
    pub upper_end: Tensor1<i32>,
}

#[attention_variant(name = "flash_mask")]
impl AttentionVariant for FlashMask {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        let key = at.kv_token;
        let below = self.lower_start[key] <= at.qo_pos && at.qo_pos < self.lower_end[key];
        let above = self.upper_start[key] <= at.qo_pos && at.qo_pos < self.upper_end[key];
        !below && !above
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::token_keys;

    #[test]
    fn causal_documents_by_columns() {
        let variant = FlashMask {
            lower_start: [2, 2, 5, 5, 5].into(),
            lower_end: [5; 5].into(),
            upper_start: [0; 5].into(),
            upper_end: [0, 1, 2, 3, 4].into(),
        };
        assert_eq!(token_keys(&variant, 1, 5), [true, true, false, false, false]);
        assert_eq!(token_keys(&variant, 3, 5), [false, false, true, true, false]);
    }
}
