#line _ "variant"
namespace lang {

/// Log scale: logits grow with the logarithm of the number of keys up to the query.
///
/// `logit * scale[qo_head] * ln(max(qo_pos + 1, min_len))`, applied to the query. Scalable softmax (SSMax, arXiv 2501.19399) is
/// `log_scale(scale=[..])` with its learnt scale per head. Qwen's log-n attention (arXiv 2309.16609), which leaves queries
/// below the training length alone and multiplies those beyond by the logarithm to the base of that length, is
/// `log_scale(min_len=2048)`: the default scale is `1 / ln(min_len)`.
struct LogScale {
  int min_len_;
  Tensor1<float> scale_;

#line _ "variants/src/log_scale.rs"
  template <class R> ATTN_FN void query_transform(R& q, RowIndex at) const {
    const float len = float(max(at.qo_pos + 1, min_len_));
    const float scale = scale_[at.qo_head] * ln(len);
    q.map([&](int, float x) -> float { return x * scale; });
  }
#line _ "variant"
};
