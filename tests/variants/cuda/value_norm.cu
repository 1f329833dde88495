#line _ "variant"
namespace lang {

/// Value norm: values are normalised to unit mean square before they are summed.
///
/// `v[d] * weight[d] / sqrt(mean(v^2) + eps)` over a head (RMSNorm, arXiv 1910.07467; on values, without weights, in
/// Gemma 3n). The cache must hold values that are not normalised yet.
struct ValueNorm {
  Tensor1<float> weight_;
  float eps_;

#line _ "variants/src/norm/value_norm.rs"
  template <class R> ATTN_FN void value_transform(R& v, KvIndex _at) const {
    const float mean = v.sum_sq() / float(v.dim());
    const float inv = 1.0f / sqrt(mean + eps_);
    v.map([&](int d, float x) -> float { return x * inv * weight_[d]; });
  }
#line _ "variant"
};
