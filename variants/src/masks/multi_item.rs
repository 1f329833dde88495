use attn::lang::{AttentionVariant, LogitIndex, Tensor1};
use attn::{VariantParams, attention_variant};

/// Multi-item scoring: a prompt, then items that see the prompt and themselves, and not each other.
///
/// Items follow the prompt, each opened by a delimiter. Attends where `kv_pos <= qo_pos` and either
/// `kv_pos < prefix_len[batch]` or `kv_pos > item_start[qo_token]`: no token attends to a delimiter, nor does a
/// delimiter to itself (FlashInfer, arXiv 2501.01005, whose `token_pos_in_items` is `qo_pos - item_start`).
#[derive(Clone, Debug, PartialEq, VariantParams)]
pub struct MultiItem {
    /// Tokens of the prompt of each request.
    #[shape(batch)]
    pub prefix_len: Tensor1<i32>,
    /// For each query token, the position of the delimiter that opens its item; any value within the prompt.
    #[shape(qo_tokens)]
    pub item_start: Tensor1<i32>,
}

#[attention_variant(name = "multi_item")]
impl AttentionVariant for MultiItem {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        let same_item = at.kv_pos > self.item_start[at.qo_token];
        at.kv_pos <= at.qo_pos && (at.kv_pos < self.prefix_len[at.batch] || same_item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::token_keys;

    #[test]
    fn prompt_and_items() {
        // p p | i i | i i
        let variant = MultiItem { prefix_len: [2].into(), item_start: [0, 0, 2, 2, 4, 4].into() };
        assert_eq!(token_keys(&variant, 0, 6), [true, false, false, false, false, false]);
        assert_eq!(token_keys(&variant, 2, 6), [true, true, false, false, false, false]);
        assert_eq!(token_keys(&variant, 3, 6), [true, true, false, true, false, false]);
        assert_eq!(token_keys(&variant, 5, 6), [true, true, false, false, false, true]);
    }
}
