#line _ "variant"
namespace lang {

/// Rotary embedding of Llama 3.1: slow frequencies are slowed down for long texts, fast ones stay.
///
/// As `rope`, with other frequencies. A pair of frequency `f = theta^(-2 i / head_dim)` makes
/// `r = original_len * f / (2 pi)` turns in `original_len` positions. Its frequency becomes `f` if
/// `r > high_freq_factor`, `f / factor` if `r < low_freq_factor`, and between them `t f + (1 - t) f / factor` with
/// `t = (r - low_freq_factor) / (high_freq_factor - low_freq_factor)` ("The Llama 3 Herd of Models", arXiv 2407.21783;
/// `rope_type: llama3` in model configurations, which use these parameter names).
struct Llama3Rope {
  float theta_;
  float factor_;
  float low_freq_factor_;
  float high_freq_factor_;
  int original_len_;
  alignas(4) bool interleaved_;
  Tensor1<float> inv_freq_;

  /// `(cosine, sine)` of an angle in radians, the result that `rotate_half` and `rotate_pairs` take. The absolute error
  /// on a GPU is below 2^-20 for angles below 2^22 radians.
#line _ "variants/src/rotary/rotation.rs"
  static ATTN_FN Pair cos_sin_fn(float angle) {
    const Pair whole = approx_sin_cos(angle);
    const float sin_2 = whole.x;
    const float cos_2 = whole.y;
    return Pair{cos_2, sin_2};
  }

#line _ "variants/src/rotary/llama3_rope.rs"
  template <class R> ATTN_FN void query_transform(R& q, RowIndex at) const {
    const float pos = float(at.qo_pos);
    if (interleaved_) {
      q.rotate_pairs(q.dim(), [&](int i) -> Pair { return cos_sin_fn(pos * inv_freq_[i]); });
    } else {
      q.rotate_half(q.dim(), [&](int i) -> Pair { return cos_sin_fn(pos * inv_freq_[i]); });
    }
  }

#line _ "variants/src/rotary/llama3_rope.rs"
  template <class R> ATTN_FN void key_transform(R& k, KvIndex at) const {
    const float pos = float(at.kv_pos);
    if (interleaved_) {
      k.rotate_pairs(k.dim(), [&](int i) -> Pair { return cos_sin_fn(pos * inv_freq_[i]); });
    } else {
      k.rotate_half(k.dim(), [&](int i) -> Pair { return cos_sin_fn(pos * inv_freq_[i]); });
    }
  }
#line _ "variant"
};
