#line _ "variant"
namespace lang {

/// Draft trees: the queries are nodes of a tree, and each sees the context and its ancestors.
///
/// The queries of a request are the nodes of its draft tree, and its last keys are the same nodes in the same order.
/// With `node = kv_pos - (kv_len - qo_len)`, attends where `node < 0`, which is the context, or
/// `ancestors[qo_token, node]` is set, which holds for the query's ancestors and itself (verification in speculative
/// decoding: SpecInfer, arXiv 2305.09781; Medusa, arXiv 2401.10774).
struct Tree {
  int width_;
  Tensor2<PackedBits> ancestors_;
  TensorBounds ancestors_range_;

#line _ "variants/src/masks/tree.rs"
  ATTN_FN bool logits_mask(LogitIndex at) const {
    const int node = sub(at.kv_pos, at.kv_len - at.qo_len);
    return node < 0 || (node < width_ && ancestors_(at.qo_token, node));
  }

#line _ "derived from logits_mask"
  ATTN_FN Tristate mask_over(const Tile& at) const {
    const auto kv_pos = interval::coordinate(at.kv_pos_min, at.kv_pos_max);
    const auto kv_len = interval::of(at.kv_len);
    const auto qo_len = interval::of(at.qo_len);
    const auto v4 = interval::sub(kv_pos, interval::sub(kv_len, qo_len));
    const auto qo_token = interval::coordinate(at.qo_token_min, at.qo_token_max);
    return interval::tristate(interval::either(interval::lt(v4, interval::of(0)), interval::both(interval::lt(v4, interval::of(width_)), interval_of(ancestors_, ancestors_range_, qo_token, v4))));
  }
#line _ "variant"
};
