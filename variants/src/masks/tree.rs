use attn::lang::{AttentionVariant, Bits, LogitIndex, Tensor2};
use attn::{VariantParams, attention_variant};

/// Draft trees: the queries are nodes of a tree, and each sees the context and its ancestors.
///
/// The queries of a request are the nodes of its draft tree, and its last keys are the same nodes in the same order.
/// With `node = kv_pos - (kv_len - qo_len)`, attends where `node < 0`, which is the context, or
/// `ancestors[qo_token, node]` is set, which holds for the query's ancestors and itself (verification in speculative
/// decoding: SpecInfer, arXiv 2305.09781; Medusa, arXiv 2401.10774).
#[derive(Clone, Debug, PartialEq, VariantParams)]
pub struct Tree {
    /// Bits of a row of `ancestors`: at least the nodes of the largest tree.
    #[require(width >= 1)]
    pub width: i32,
    /// For each query token, the nodes of its tree that it sees.
    #[shape(qo_tokens, width)]
    pub ancestors: Tensor2<Bits>,
}

#[attention_variant(name = "tree")]
impl AttentionVariant for Tree {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        let node = at.kv_pos - (at.kv_len - at.qo_len);
        node < 0 || node < self.width && self.ancestors[[at.qo_token, node]]
    }
}
