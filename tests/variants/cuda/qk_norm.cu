#line _ "variant"
namespace lang {

/// QK norm: queries and keys are normalised to unit mean square before the product.
///
/// `x[d] * (offset + w[d]) / sqrt(mean(x^2) + eps)` over a head, with one weight per element of a head (RMSNorm, arXiv
/// 1910.07467; on queries and keys as in Qwen3 and OLMo 2). By default `offset + w[d]` is 1, as in Llama 4. Gemma 3
/// stores its weights less one: `offset = 1`. The norm comes first in Qwen3 and Gemma 3, `qk_norm + rope`, and last in
/// Llama 4, `rope(interleaved=true) + qk_norm`. The cache must hold keys that are not normalised yet.
struct QkNorm {
  Tensor1<float> q_weight_;
  Tensor1<float> k_weight_;
  float eps_;
  float offset_;

#line _ "variants/src/norm/qk_norm.rs"
  template <class R> ATTN_FN void query_transform(R& q, RowIndex _at) const {
    const float mean = q.sum_sq() / float(q.dim());
    const float inv = 1.0f / sqrt(mean + eps_);
    q.map([&](int d, float x) -> float { return x * inv * (offset_ + q_weight_[d]); });
  }

#line _ "variants/src/norm/qk_norm.rs"
  template <class R> ATTN_FN void key_transform(R& k, KvIndex _at) const {
    const float mean = k.sum_sq() / float(k.dim());
    const float inv = 1.0f / sqrt(mean + eps_);
    k.map([&](int d, float x) -> float { return x * inv * (offset_ + k_weight_[d]); });
  }
#line _ "variant"
};
