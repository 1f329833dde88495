use attn::lang::{AttentionVariant, LogitIndex};
use attn::{VariantParams, attention_variant};

/// Bidirectional window: a query attends to keys near it on both sides.
///
/// Attends where `qo_pos - left <= kv_pos <= qo_pos + right`: `left + 1 + right` keys, the query's own included. This
/// is the local attention of encoders (Longformer, arXiv 2004.05150, section 3.1). `right = 0` is a causal window of
/// `left + 1` keys.
#[derive(Clone, Copy, Debug, PartialEq, VariantParams)]
pub struct BidirectionalWindow {
    /// Keys before the query's own.
    #[require(left >= 0)]
    pub left: i32,
    /// Keys after the query's own.
    #[require(right >= 0)]
    pub right: i32,
}

#[attention_variant(name = "bidirectional_window")]
impl AttentionVariant for BidirectionalWindow {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        at.qo_pos - at.kv_pos <= self.left && at.kv_pos - at.qo_pos <= self.right
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::keys;

    #[test]
    fn keys_on_both_sides() {
        let window = |left, right| keys(&BidirectionalWindow { left, right }, 3, 7);
        assert_eq!(window(2, 1), [false, true, true, true, true, false, false]);
        assert_eq!(window(0, 0), [false, false, false, true, false, false, false]);
        assert_eq!(window(i32::MAX, i32::MAX), [true; 7]);
    }
}
