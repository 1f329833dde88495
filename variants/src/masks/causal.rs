use attn::lang::{AttentionVariant, LogitIndex};
use attn::{VariantParams, attention_variant};

/// Causal mask: a query attends to the keys up to its own position.
///
/// Attends where `kv_pos <= qo_pos`. Positions are absolute: the last query of a request is aligned with its last key,
/// in prefill, chunked prefill and decode alike ("Attention Is All You Need", arXiv 1706.03762, section 3.2.3).
#[derive(Clone, Copy, Debug, PartialEq, VariantParams)]
pub struct Causal;

#[attention_variant(name = "causal")]
impl AttentionVariant for Causal {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        at.kv_pos <= at.qo_pos
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{at, check_tile_class, keys};

    #[test]
    fn keys_up_to_the_query() {
        assert_eq!(keys(&Causal, 3, 6), [true, true, true, true, false, false]);
        assert!(Causal.logits_mask(at(100_000, 100_000)));
    }

    #[test]
    fn tile_class_is_sound_and_exact() {
        assert_eq!(check_tile_class(&Causal), 0);
    }
}
