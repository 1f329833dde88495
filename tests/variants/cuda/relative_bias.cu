#line _ "variant"
namespace lang {

/// Relative bias: a learnt number for each head and clamped distance is added to logits.
///
/// `logit + table[qo_head, clamp(kv_pos - qo_pos, -max_distance, max_distance) + max_distance]`: Shaw et al. (arXiv
/// 1803.02155) and its descendants that add a scalar, as Swin does along one axis (arXiv 2103.14030) and Sandwich with
/// a fixed table (arXiv 2212.10356). Column `max_distance` is the query's own key; keys further away than
/// `max_distance` share the first and the last column.
struct RelativeBias {
  int max_distance_;
  Tensor2<float> table_;

#line _ "variants/src/bias/relative_bias.rs"
  ATTN_FN float logits_transform(Logit logit, LogitIndex at) const {
    const int distance = clamp(at.kv_pos - at.qo_pos, neg(max_distance_), max_distance_);
    return float(logit) + table_(at.qo_head, add(distance, max_distance_));
  }

#line _ "variants/src/bias/relative_bias.rs"
  ATTN_FN auto logits_bias(LogitIndex at) const {
    const int distance = clamp(at.kv_pos - at.qo_pos, neg(max_distance_), max_distance_);
    return float(table_(at.qo_head, add(distance, max_distance_)));
  }
#line _ "variant"
};
