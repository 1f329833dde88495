use attn::lang::{AttentionVariant, LogitIndex};
use attn::{VariantParams, attention_variant};

/// Dilated window: a query attends to every `dilation`-th key near it, on both sides.
///
/// Attends where `|qo_pos - kv_pos| <= window` and `|qo_pos - kv_pos|` is a multiple of `dilation` (Longformer, arXiv
/// 2004.05150, section 3.1). Compose it with `causal` to attend to keys up to the query alone.
#[derive(Clone, Copy, Debug, PartialEq, VariantParams)]
pub struct DilatedWindow {
    /// The largest distance, in positions.
    #[require(window >= 0)]
    pub window: i32,
    /// Distance between attended keys, in positions.
    #[require(dilation >= 1)]
    pub dilation: i32,
}

#[attention_variant(name = "dilated_window")]
impl AttentionVariant for DilatedWindow {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        let distance = (at.qo_pos - at.kv_pos).abs();
        distance <= self.window && distance % self.dilation == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::keys;

    #[test]
    fn every_other_key() {
        let window = |window, dilation| keys(&DilatedWindow { window, dilation }, 3, 7);
        assert_eq!(window(2, 2), [false, true, false, true, false, true, false]);
        assert_eq!(window(3, 3), [true, false, false, true, false, false, true]);
        assert_eq!(window(1, 1), [false, false, true, true, true, false, false]);
    }
}
