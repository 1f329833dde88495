#line _ "variant"
namespace lang {

/// YaRN: rotary embedding stretched to longer texts, by frequency, with a factor on the logits.
///
/// As `rope`, with frequencies between `f = theta^(-2 i / head_dim)` and `f / factor` (arXiv 2309.00071, section 3.2).
/// Pair `i` keeps `f` where it makes more than `beta_fast` turns in `original_len` positions, and has `f / factor`
/// where it makes fewer than `beta_slow`. Between these two pairs frequencies are mixed linearly in `i`; `truncate`
/// rounds the two pairs outwards. Rotated queries and keys are both multiplied by `mscale * ln(factor) + 1` (section
/// 3.4: `mscale = 0.1`).
struct Yarn {
  float theta_;
  float factor_;
  int original_len_;
  float beta_fast_;
  float beta_slow_;
  alignas(4) bool truncate_;
  float mscale_;
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

#line _ "variants/src/rotary/yarn.rs"
  template <class R> ATTN_FN void query_transform(R& q, RowIndex at) const {
    const float pos = float(at.qo_pos);
    const float scale = mscale_ * ln(factor_) + 1.0f;
    if (interleaved_) {
      q.rotate_pairs(q.dim(), [&](int i) -> Pair { return cos_sin_fn(pos * inv_freq_[i]); });
    } else {
      q.rotate_half(q.dim(), [&](int i) -> Pair { return cos_sin_fn(pos * inv_freq_[i]); });
    }
    q.map([&](int, float x) -> float { return x * scale; });
  }

#line _ "variants/src/rotary/yarn.rs"
  template <class R> ATTN_FN void key_transform(R& k, KvIndex at) const {
    const float pos = float(at.kv_pos);
    const float scale = mscale_ * ln(factor_) + 1.0f;
    if (interleaved_) {
      k.rotate_pairs(k.dim(), [&](int i) -> Pair { return cos_sin_fn(pos * inv_freq_[i]); });
    } else {
      k.rotate_half(k.dim(), [&](int i) -> Pair { return cos_sin_fn(pos * inv_freq_[i]); });
    }
    k.map([&](int, float x) -> float { return x * scale; });
  }
#line _ "variant"
};
