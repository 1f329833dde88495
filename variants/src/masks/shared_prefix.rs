use attn::lang::{AttentionVariant, LogitIndex, Tensor1};
use attn::{VariantParams, attention_variant};

/// Shared prefixes: documents that are causal in themselves and see all of a prefix that others see.
///
/// Let `d = of_query[qo_token]` and `p = prefix_of[d]`. Attends where `offsets[d] <= kv_pos <= qo_pos`, or, if
/// `p != d`, where `offsets[p] <= kv_pos < offsets[p + 1]` (shared prompts in one packed sequence: Hydragen, arXiv
/// 2402.05099).
#[derive(Clone, Debug, PartialEq, VariantParams)]
pub struct SharedPrefix {
    /// Number of documents, prefixes included.
    #[require(documents >= 1)]
    pub documents: i32,
    /// Document of each query token.
    #[shape(qo_tokens)]
    pub of_query: Tensor1<i32>,
    /// The position where each document starts, and where the last one ends.
    #[shape(documents + 1)]
    pub offsets: Tensor1<i32>,
    /// The document that is the prefix of each document; a prefix names itself.
    #[shape(documents)]
    pub prefix_of: Tensor1<i32>,
}

#[attention_variant(name = "shared_prefix")]
impl AttentionVariant for SharedPrefix {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        let document = self.of_query[at.qo_token];
        let prefix = self.prefix_of[document];
        let own = self.offsets[document] <= at.kv_pos && at.kv_pos <= at.qo_pos;
        let shared = self.offsets[prefix] <= at.kv_pos && at.kv_pos < self.offsets[prefix + 1];
        own || document != prefix && shared
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::token_keys;

    #[test]
    fn own_document_up_to_the_query_and_its_prefix() {
        let variant = SharedPrefix {
            documents: 3,
            of_query: [0, 0, 1, 1, 2, 2].into(),
            offsets: [0, 2, 4, 6].into(),
            prefix_of: [0, 0, 0].into(),
        };
        assert_eq!(token_keys(&variant, 0, 6), [true, false, false, false, false, false]);
        assert_eq!(token_keys(&variant, 2, 6), [true, true, true, false, false, false]);
        assert_eq!(token_keys(&variant, 5, 6), [true, true, false, false, true, true]);
    }
}
