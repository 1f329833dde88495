use attn::lang::{AttentionVariant, LogitIndex};
use attn::{VariantParams, attention_variant};

/// Sliding window: a query attends to the last `window` keys, including its own.
///
/// Attends where `qo_pos - kv_pos < window` (Longformer, arXiv 2004.05150; Mistral 7B, arXiv 2310.06825, whose
/// `sliding_window = 4096` is the same number here).
///
/// Keys *newer* than the query are not masked: compose it with `causal`. Together they leave
/// `max(0, qo_pos - window + 1) ..= qo_pos`, which is `window` keys. A window of 1 leaves the query's own key. A window
/// of 0 masks that key too: alone it leaves the newer keys; with `causal` it leaves nothing, and every output row is
/// zero.
#[derive(Clone, Copy, Debug, PartialEq, VariantParams)]
pub struct SlidingWindow {
    /// Number of keys, the query's own included.
    #[require(window >= 0)]
    pub window: i32,
}

#[attention_variant(name = "sliding_window")]
impl AttentionVariant for SlidingWindow {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        at.qo_pos - at.kv_pos < self.window
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{check_tile_class, keys};
    use attn::lang::{BindError, Dims, VariantParams};

    #[test]
    fn the_last_keys_and_newer_ones() {
        let window = |window| keys(&SlidingWindow { window }, 3, 6);
        assert_eq!(window(2), [false, false, true, true, true, true]);
        assert_eq!(window(1), [false, false, false, true, true, true]);
        assert_eq!(window(0), [false, false, false, false, true, true]);
        assert_eq!(window(i32::MAX), [true; 6]);
    }

    #[test]
    fn tile_class_is_sound_and_exact() {
        for window in [0, 1, 2, 5, 30, i32::MAX] {
            assert_eq!(check_tile_class(&SlidingWindow { window }), 0, "window {window}");
        }
    }

    #[test]
    fn a_negative_window_is_refused() {
        let error = SlidingWindow { window: -1 }.bind(&Dims::default()).expect_err("negative");
        assert!(matches!(error, BindError::Require { .. }), "{error}");
    }
}
