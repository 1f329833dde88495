use attn::lang::{AttentionVariant, KvIndex, LogitIndex, RowIndex, Tensor1};
use attn::{VariantParams, attention_variant};

/// Packed documents: tokens attend to their own one; under `remap`, positions count from its start.
///
/// Attends where `start_of_query[qo_token] == start_of_key[kv_token]` (packing as in Llama 3, arXiv 2407.21783, section
/// 3.2). Under `remap` the hooks inside see `qo_pos - start_of_query[qo_token]` and `kv_pos - start_of_key[kv_token]`,
/// so `remap(packed_documents(..), causal + rope)` computes `causal + rope` for each document by itself.
#[derive(Clone, Debug, PartialEq, VariantParams)]
pub struct PackedDocuments {
    /// For each query token, the position within its request where its document starts.
    #[shape(qo_tokens)]
    pub start_of_query: Tensor1<i32>,
    /// For each key token, the position within its request where its document starts.
    #[shape(kv_tokens)]
    pub start_of_key: Tensor1<i32>,
}

#[attention_variant(name = "packed_documents")]
impl AttentionVariant for PackedDocuments {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        self.start_of_query[at.qo_token] == self.start_of_key[at.kv_token]
    }

    fn remap_qo_pos(&self, at: RowIndex) -> i32 {
        at.qo_pos - self.start_of_query[at.qo_token]
    }

    fn remap_kv_pos(&self, at: KvIndex) -> i32 {
        at.kv_pos - self.start_of_key[at.kv_token]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{token_at, token_keys};

    #[test]
    fn tokens_of_the_same_document_and_their_positions() {
        let start = Tensor1::from([0, 0, 2, 2, 2, 5]);
        let variant = PackedDocuments { start_of_query: start.clone(), start_of_key: start };
        assert_eq!(token_keys(&variant, 3, 6), [false, false, true, true, true, false]);
        let positions: Vec<i32> = (0..6).map(|i| variant.remap_qo_pos(token_at(i, 0).row)).collect();
        assert_eq!(positions, [0, 1, 0, 1, 2, 0]);
        let key = |j| KvIndex { kv_pos: j, kv_token: j, ..KvIndex::default() };
        assert_eq!((0..6).map(|j| variant.remap_kv_pos(key(j))).collect::<Vec<_>>(), positions);
    }
}
