#line _ "variant"
namespace lang {

/// T5 bias: a learnt number for each head and bucket of distances is added to logits.
///
/// `logit + weights[bucket(kv_pos - qo_pos), qo_head]` (arXiv 1910.10683; T5 itself runs with `sm_scale = 1`).
///
/// A bidirectional bias gives each direction `n = buckets / 2` buckets. A causal one gives all `n = buckets` to keys
/// before the query, and the first of them to keys after it. The first `e = n / 2` buckets hold one distance each; a
/// distance `d >= e` is in bucket `min(e + floor(ln(d / e) / ln(max_distance / e) * (n - e)), n - 1)`.
///
/// The host computes the logarithms once. The kernel reads `table`, which has a column for each distance up to
/// `max_distance`; all larger distances are in the last bucket.
struct T5Bias {
  int buckets_;
  int max_distance_;
  alignas(4) bool bidirectional_;
  Tensor2<float> weights_;
  Tensor2<float> table_;

#line _ "variants/src/bias/t5_bias.rs"
  ATTN_FN float logits_transform(Logit logit, LogitIndex at) const {
    const int distance = clamp(at.kv_pos - at.qo_pos, neg(max_distance_), max_distance_);
    return float(logit) + table_(at.qo_head, add(distance, max_distance_));
  }

#line _ "variants/src/bias/t5_bias.rs"
  ATTN_FN auto logits_bias(LogitIndex at) const {
    const int distance = clamp(at.kv_pos - at.qo_pos, neg(max_distance_), max_distance_);
    return float(table_(at.qo_head, add(distance, max_distance_)));
  }
#line _ "variant"
};
