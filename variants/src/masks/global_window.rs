use attn::lang::{AttentionVariant, LogitIndex, Tensor1};
use attn::{VariantParams, attention_variant};

/// Global tokens and a window: tokens see near keys and global tokens; global tokens see everything.
///
/// Attends where `|qo_pos - kv_pos| <= window`, or the query is a global token, or the key is (Longformer, arXiv
/// 2004.05150, section 3.1; BigBird, arXiv 2007.14062, without its random keys).
#[derive(Clone, Debug, PartialEq, VariantParams)]
pub struct GlobalWindow {
    /// The largest distance, in positions.
    #[require(window >= 0)]
    pub window: i32,
    /// Whether each query token is global.
    #[shape(qo_tokens)]
    pub of_query: Tensor1<bool>,
    /// Whether each key token is global.
    #[shape(kv_tokens)]
    pub of_key: Tensor1<bool>,
}

#[attention_variant(name = "global_window")]
impl AttentionVariant for GlobalWindow {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        let near = (at.qo_pos - at.kv_pos).abs() <= self.window;
        near || self.of_query[at.qo_token] || self.of_key[at.kv_token]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::token_keys;

    #[test]
    fn near_keys_and_global_ones() {
        let marks = Tensor1::from([false, false, true, false, false, false, false]);
        let variant = GlobalWindow { window: 1, of_query: marks.clone(), of_key: marks };
        assert_eq!(token_keys(&variant, 5, 7), [false, false, true, false, true, true, true]);
        assert_eq!(token_keys(&variant, 2, 7), [true; 7]);
    }
}
