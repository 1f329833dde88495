use attn::lang::{AttentionVariant, LogitIndex, Tensor1};
use attn::{VariantParams, attention_variant};

/// Documents by their spans: a query attends to the keys between two positions of its own.
///
/// Attends where `start[qo_token] <= kv_pos < end[qo_token]`. For texts packed into one sequence (Llama 3, arXiv
/// 2407.21783, section 3.2) it equals `documents`, but each row attends to one interval of keys, so no table is read
/// per key. Compose it with `causal`. Any other interval per query works as well, such as windows of different lengths.
#[derive(Clone, Debug, PartialEq, VariantParams)]
pub struct DocumentSpans {
    /// For each query token, the position within its request of the first key.
    #[shape(qo_tokens)]
    pub start: Tensor1<i32>,
    /// For each query token, one past the position of the last key.
    #[shape(qo_tokens)]
    pub end: Tensor1<i32>,
}

#[attention_variant(name = "document_spans")]
impl AttentionVariant for DocumentSpans {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        self.start[at.qo_token] <= at.kv_pos && at.kv_pos < self.end[at.qo_token]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::token_keys;

    #[test]
    fn keys_between_start_and_end() {
        let variant = DocumentSpans { start: [0, 0, 2, 2, 3].into(), end: [2, 2, 5, 5, 3].into() };
        assert_eq!(token_keys(&variant, 1, 5), [true, true, false, false, false]);
        assert_eq!(token_keys(&variant, 2, 5), [false, false, true, true, true]);
        assert_eq!(token_keys(&variant, 4, 5), [false; 5]);
    }
}
