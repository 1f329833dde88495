use attn::lang::{AttentionVariant, LogitIndex};
use attn::{VariantParams, attention_variant};

/// Streaming: the first keys of the sequence and a causal window.
///
/// Attends where `kv_pos <= qo_pos`, and `kv_pos < sink` or `qo_pos - kv_pos < window` (StreamingLLM, arXiv
/// 2309.17453). The `sink` keys have values, unlike the logit of the variant `sink`.
#[derive(Clone, Copy, Debug, PartialEq, VariantParams)]
pub struct Streaming {
    /// Keys at the start that are always attended to.
    #[require(sink >= 0)]
    pub sink: i32,
    /// Number of keys up to the query, its own included.
    #[require(window >= 0)]
    pub window: i32,
}

#[attention_variant(name = "streaming")]
impl AttentionVariant for Streaming {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        at.kv_pos <= at.qo_pos && (at.kv_pos < self.sink || at.qo_pos - at.kv_pos < self.window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::keys;

    #[test]
    fn the_first_keys_and_the_last() {
        let variant = Streaming { sink: 2, window: 3 };
        assert_eq!(keys(&variant, 6, 8), [true, true, false, false, true, true, true, false]);
        assert_eq!(keys(&variant, 0, 3), [true, false, false]);
    }
}
