#line _ "variant"
namespace lang {

/// Draft trees: the queries are nodes of a tree, and each sees the context and its ancestors.
///
/// The queries of a request are the nodes of its tree, and so are its last keys, in the same order. A node sees every key before
/// them, and key `n` of the tree where `ancestors[[qo_token, n]]` is set: its ancestors, and itself (verification in speculative
/// decoding: SpecInfer, arXiv 2305.09781; Medusa, arXiv 2401.10774).
struct Tree {
  int width_;
  Tensor2<PackedBits> ancestors_;
  TableRange ancestors_range_;

#line _ "variants/src/tree.rs"
  ATTN_FN bool logits_mask(LogitIndex at) const {
    const int node = sub(at.kv_pos, at.kv_len - at.qo_len);
    return node < 0 || (node < width_ && ancestors_(at.qo_token, node));
  }

#line _ "derived from logits_mask"
  ATTN_FN Tri mask_over(const Tile& at) const {
    const auto kv_pos = range::word(at.kv_pos_min, at.kv_pos_max);
    const auto kv_len = range::of(at.kv_len);
    const auto qo_len = range::of(at.qo_len);
    const auto v4 = range::sub(kv_pos, range::sub(kv_len, qo_len));
    const auto qo_token = range::word(at.qo_token_min, at.qo_token_max);
    return range::tri(range::either(range::lt(v4, range::of(0)), range::both(range::lt(v4, range::of(width_)), range_of(ancestors_, ancestors_range_, qo_token, v4))));
  }
#line _ "variant"
};
