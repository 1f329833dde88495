use attn::lang::{AttentionVariant, LogitIndex, Tensor1};
use attn::{VariantParams, attention_variant};

/// Image spans: causal, but the tokens of an image see all of their image.
///
/// Attends where `kv_pos <= qo_pos`, or where `of_query[qo_token] == of_key[kv_token] >= 0` (PaliGemma, arXiv
/// 2407.07726; Gemma 3, arXiv 2503.19786). The causal part is included: composing it with `causal` leaves only
/// `causal`.
#[derive(Clone, Debug, PartialEq, VariantParams)]
pub struct ImageSpans {
    /// Image of each query token; negative for text.
    #[shape(qo_tokens)]
    pub of_query: Tensor1<i32>,
    /// Image of each key token; negative for text.
    #[shape(kv_tokens)]
    pub of_key: Tensor1<i32>,
}

#[attention_variant(name = "image_spans")]
impl AttentionVariant for ImageSpans {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        let (query, key) = (self.of_query[at.qo_token], self.of_key[at.kv_token]);
        // equal numbers are both images or both text; testing both signs lets the tile classifier skip tiles of text
        at.kv_pos <= at.qo_pos || query >= 0 && key >= 0 && query == key
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::token_keys;

    #[test]
    fn text_is_causal_and_images_are_not() {
        let of = Tensor1::from([-1, 0, 0, -1, 1, 1]);
        let variant = ImageSpans { of_query: of.clone(), of_key: of };
        assert_eq!(token_keys(&variant, 0, 6), [true, false, false, false, false, false]);
        assert_eq!(token_keys(&variant, 1, 6), [true, true, true, false, false, false]);
        assert_eq!(token_keys(&variant, 3, 6), [true, true, true, true, false, false]);
        assert_eq!(token_keys(&variant, 4, 6), [true; 6]);
    }
}
