use attn::lang::{AttentionVariant, LogitIndex, Tensor1};
use attn::{VariantParams, attention_variant};

/// FlashMask: two intervals of queries that do not see a key, for each key.
///
/// A query does not see key `j` where `lower_start[j] <= qo_pos < lower_end[j]` or `upper_start[j] <= qo_pos < upper_end[j]` (arXiv
/// 2410.01359, where the first interval lies below the diagonal, and the second above; nothing here asks for that). Most masks of
/// training fit: causal, documents, prefixes, shared questions.
#[derive(Clone, Debug, PartialEq, VariantParams)]
pub struct FlashMask {
    /// For each key token, the first position of queries below the diagonal that do not see it.
    #[shape(kv_tokens)]
    pub lower_start: Tensor1<i32>,
    /// For each key token, the position after the last of these.
    #[shape(kv_tokens)]
    pub lower_end: Tensor1<i32>,
    /// For each key token, the first position of queries above the diagonal that do not see it.
    #[shape(kv_tokens)]
    pub upper_start: Tensor1<i32>,
    /// For each key token, the position after the last of these.
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
