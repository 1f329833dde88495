#line _ "variant"
namespace lang {

/// Output norm: each head's output is normalised to unit mean square.
///
/// `o[d] * weight[d] * scale / sqrt(mean(o^2) + eps)` over a head, on the finished output: the sub-layer norm of
/// Magneto (arXiv 2210.06423) and of the differential transformer (arXiv 2410.05258, where `scale = 1 - lambda_init`).
struct OutputNorm {
  Tensor1<float> weight_;
  float eps_;
  float scale_;

#line _ "variants/src/output/output_norm.rs"
  template <class R> ATTN_FN void output_transform(R& o, RowState _state, RowIndex _at) const {
    const float mean = o.sum_sq() / float(o.dim());
    const float inv = scale_ / sqrt(mean + eps_);
    o.map([&](int d, float x) -> float { return x * inv * weight_[d]; });
  }
#line _ "variant"
};
