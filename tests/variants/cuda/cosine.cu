#line _ "variant"
namespace lang {

/// Cosine attention: logits are the cosine of query and key, times a learnt scale per head.
///
/// `logit = sm_scale * min(exp(log_scale[qo_head]), max_scale) * (q . k) / (|q| |k|)` (Swin Transformer V2, arXiv
/// 2111.09883, whose logits are these for `sm_scale = 1`). A row of zeros stays zero. The cache must hold keys that are
/// not normalised yet.
struct Cosine {
  Tensor1<float> log_scale_;
  float max_scale_;

#line _ "variants/src/norm/cosine.rs"
  template <class R> ATTN_FN void query_transform(R& q, RowIndex at) const {
    const float scale = min(exp(log_scale_[at.qo_head]), max_scale_) / max(sqrt(q.sum_sq()), 1e-12f);
    q.map([&](int, float x) -> float { return x * scale; });
  }

#line _ "variants/src/norm/cosine.rs"
  template <class R> ATTN_FN void key_transform(R& k, KvIndex _at) const {
    const float inv = 1.0f / max(sqrt(k.sum_sq()), 1e-12f);
    k.map([&](int, float x) -> float { return x * inv; });
  }
#line _ "variant"
};
