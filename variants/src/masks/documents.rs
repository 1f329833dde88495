use attn::lang::{AttentionVariant, LogitIndex, Tensor1};
use attn::{VariantParams, attention_variant};

/// Documents: tokens attend to the tokens of their own document.
///
/// Attends where `of_query[qo_token] == of_key[kv_token]`: texts packed into one sequence do not attend to each other
/// (Llama 3, arXiv 2407.21783, section 3.2). Compose it with `causal`. `causal_documents` is the cheaper form of that
/// composition; `packed_documents` also counts positions from the start of each document.
#[derive(Clone, Debug, PartialEq, VariantParams)]
pub struct Documents {
    /// Document of each query token; never decreases.
    #[shape(qo_tokens)]
    #[monotone]
    pub of_query: Tensor1<i32>,
    /// Document of each key token; never decreases.
    #[shape(kv_tokens)]
    #[monotone]
    pub of_key: Tensor1<i32>,
}

#[attention_variant(name = "documents")]
impl AttentionVariant for Documents {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        self.of_query[at.qo_token] == self.of_key[at.kv_token]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::token_keys;

    #[test]
    fn tokens_of_the_same_document() {
        let of = Tensor1::from([0, 0, 1, 1, 1, 5]);
        let variant = Documents { of_query: of.clone(), of_key: of };
        assert_eq!(token_keys(&variant, 1, 6), [true, true, false, false, false, false]);
        assert_eq!(token_keys(&variant, 3, 6), [false, false, true, true, true, false]);
        assert_eq!(token_keys(&variant, 5, 6), [false, false, false, false, false, true]);
    }
}
