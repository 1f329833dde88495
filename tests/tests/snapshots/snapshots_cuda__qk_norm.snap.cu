#line _ "variant"
namespace lang {

/// QK norm: queries and keys are normalised to unit mean square before the product.
///
/// `x[d] * w[d] / sqrt(mean(x^2) + eps)` over a head, with one weight per value of a head (RMSNorm, arXiv 1910.07467;
/// on queries and keys as in Qwen3 and OLMo 2). The cache must hold keys that are not normalised yet. With `rope`,
/// norm comes first: `qk_norm + rope`.
struct QkNorm {
  Tensor1<float> q_weight_;
  Tensor1<float> k_weight_;
  float eps_;

#line _ "variants/src/qk_norm.rs"
  template <class R> ATTN_FN void query_transform(R& q, RowIndex _at) const {
    const float mean = q.sum_sq() / float(q.dim());
    const float inv = 1.0f / sqrt(mean + eps_);
    q.map([&](int d, float x) -> float { return x * inv * q_weight_[d]; });
  }

#line _ "variants/src/qk_norm.rs"
  template <class R> ATTN_FN void key_transform(R& k, KvIndex _at) const {
    const float mean = k.sum_sq() / float(k.dim());
    const float inv = 1.0f / sqrt(mean + eps_);
    k.map([&](int d, float x) -> float { return x * inv * k_weight_[d]; });
  }
#line _ "variant"
};
