#line _ "variant"
namespace lang {

/// Scales per token of quantised keys and values.
///
/// `logit * k[kv_token, kv_head]` and `v * v_scale[kv_token, kv_head]`: a stored element is the true one divided by the
/// scale of its token and head (KVQuant, arXiv 2401.18079; SageAttention, arXiv 2410.02367). Keys need no preprocessing
/// pass. The tables are indexed by logical position, as packed keys are: gather the scales of a paged cache first.
struct TokenScales {
  Tensor2<float> k_;
  Tensor2<float> v_;

#line _ "variants/src/quant/token_scales.rs"
  template <class R> ATTN_FN void value_transform(R& v, KvIndex at) const {
    const float scale = v_(at.kv_token, at.kv_head);
    v.map([&](int, float x) -> float { return x * scale; });
  }

#line _ "variants/src/quant/token_scales.rs"
  ATTN_FN float logits_transform(Logit logit, LogitIndex at) const {
    return logit * k_(at.kv_token, at.kv_head);
  }
#line _ "variant"
};
