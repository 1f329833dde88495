use attn::lang::{AttentionVariant, LogitIndex, Tensor1};
use attn::{VariantParams, attention_variant};

/// Causal packed documents: keys from the start of the query's document up to the query.
///
/// Attends where `start[qo_token] <= kv_pos <= qo_pos` (Llama 3, arXiv 2407.21783, section 3.2). The result equals
/// `causal + documents(..)`, but each row attends to one interval of keys, so no table is read per key.
#[derive(Clone, Debug, PartialEq, VariantParams)]
pub struct CausalDocuments {
    /// For each query token, the position within its request where its document starts.
    #[shape(qo_tokens)]
    pub start: Tensor1<i32>,
}

#[attention_variant(name = "causal_documents")]
impl AttentionVariant for CausalDocuments {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        self.start[at.qo_token] <= at.kv_pos && at.kv_pos <= at.qo_pos
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::token_keys;

    #[test]
    fn from_the_start_of_the_document() {
        let variant = CausalDocuments { start: [0, 0, 2, 2, 2].into() };
        assert_eq!(token_keys(&variant, 1, 5), [true, true, false, false, false]);
        assert_eq!(token_keys(&variant, 3, 5), [false, false, true, true, false]);
    }
}
