#line _ "variant"
namespace lang {

/// Log scale: logits grow with the logarithm of the number of keys up to the query.
///
/// `logit * scale[qo_head] * ln(max(qo_pos + 1, min_len))`, applied to the query. Two models have this form:
///
/// - Scalable softmax (SSMax, arXiv 2501.19399) is `log_scale(scale=[..])` with its learnt scale per head.
/// - Qwen's log-n attention (arXiv 2309.16609) is `log_scale(min_len=2048)`, where 2048 is the training length and the
///   default scale is `1 / ln(min_len)`: queries within that length keep their logits, later ones are multiplied by the
///   logarithm to the base of that length.
struct LogScale {
  int min_len_;
  Tensor1<float> scale_;

#line _ "variants/src/scale/log_scale.rs"
  template <class R> ATTN_FN void query_transform(R& q, RowIndex at) const {
    const float len = float(max(at.qo_pos + 1, min_len_));
    const float scale = scale_[at.qo_head] * ln(len);
    q.map([&](int, float x) -> float { return x * scale; });
  }
#line _ "variant"
};
