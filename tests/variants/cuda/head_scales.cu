#line _ "variant"
namespace lang {

/// Scales per head of quantised queries, keys and values.
///
/// `logit * q[qo_head] * k[kv_head]` and `o * v[kv_head]`: a stored element is the true one divided by its head's scale
/// (granularities as in KVQuant, arXiv 2401.18079). No pass over the cache is needed, because a scale that all keys of
/// a head share is a factor of the sums.
struct HeadScales {
  Tensor1<float> q_;
  Tensor1<float> k_;
  Tensor1<float> v_;

#line _ "variants/src/quant/head_scales.rs"
  ATTN_FN float logits_transform(Logit logit, LogitIndex at) const {
    return logit * (q_[at.qo_head] * k_[at.kv_head]);
  }

#line _ "variants/src/quant/head_scales.rs"
  template <class R> ATTN_FN void output_transform(R& o, RowState _state, RowIndex at) const {
    const float scale = v_[at.kv_head];
    o.map([&](int, float x) -> float { return x * scale; });
  }
#line _ "variant"
};
