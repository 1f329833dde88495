use attn::lang::{AttentionVariant, LogitIndex, Tensor1};
use attn::{VariantParams, attention_variant};

/// Prefix LM: a prompt that sees all of itself, then causal.
///
/// Attends where `kv_pos < prefix[batch]` or `kv_pos <= qo_pos` (T5, arXiv 1910.10683, section 3.2.1). The causal part
/// is included: composing it with `causal` leaves only `causal`.
#[derive(Clone, Debug, PartialEq, VariantParams)]
pub struct PrefixLm {
    /// Keys of the prefix of each request.
    #[shape(batch)]
    pub prefix: Tensor1<i32>,
}

#[attention_variant(name = "prefix_lm")]
impl AttentionVariant for PrefixLm {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        at.kv_pos < self.prefix[at.batch] || at.kv_pos <= at.qo_pos
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::keys;

    #[test]
    fn the_prefix_and_keys_up_to_the_query() {
        let variant = PrefixLm { prefix: [3].into() };
        assert_eq!(keys(&variant, 0, 5), [true, true, true, false, false]);
        assert_eq!(keys(&variant, 3, 5), [true, true, true, true, false]);
    }
}
