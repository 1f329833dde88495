#line _ "variant"
namespace lang {

/// YaRN: rotary embedding stretched to longer texts, by frequency, with a factor on the logits.
///
/// As `rope`, with frequencies between `f = theta^(-2 i / head_dim)` and `f / factor`: pair `i` keeps `f` where it turns more
/// than `beta_fast` times in `original_len` positions, has `f / factor` where it turns fewer than `beta_slow` times, and
/// between the two pairs is mixed linearly in `i` (arXiv 2309.00071, section 3.2; pairs are rounded outwards where
/// `truncate`). Rotated queries and keys are both multiplied by `mscale * ln(factor) + 1` (its section 3.4: `mscale = 0.1`).
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

  /// `(cosine, sine)` of an angle in radians, to 2^-20 on a GPU below 2^22 radians, as `rotate_half` and `rotate_pairs` want them.
#line _ "variants/src/rotation.rs"
  static ATTN_FN Pair turn_fn(float angle) {
    const Pair whole = approx_sin_cos(angle);
    const float sin_2 = whole.x;
    const float cos_2 = whole.y;
    return Pair{cos_2, sin_2};
  }

#line _ "variants/src/yarn.rs"
  template <class R> ATTN_FN void query_transform(R& q, RowIndex at) const {
    const float pos = float(at.qo_pos);
    const float scale = mscale_ * ln(factor_) + 1.0f;
    if (interleaved_) {
      q.rotate_pairs(q.dim(), [&](int i) -> Pair { return turn_fn(pos * inv_freq_[i]); });
    } else {
      q.rotate_half(q.dim(), [&](int i) -> Pair { return turn_fn(pos * inv_freq_[i]); });
    }
    q.map([&](int, float x) -> float { return x * scale; });
  }

#line _ "variants/src/yarn.rs"
  template <class R> ATTN_FN void key_transform(R& k, KvIndex at) const {
    const float pos = float(at.kv_pos);
    const float scale = mscale_ * ln(factor_) + 1.0f;
    if (interleaved_) {
      k.rotate_pairs(k.dim(), [&](int i) -> Pair { return turn_fn(pos * inv_freq_[i]); });
    } else {
      k.rotate_half(k.dim(), [&](int i) -> Pair { return turn_fn(pos * inv_freq_[i]); });
    }
    k.map([&](int, float x) -> float { return x * scale; });
  }
#line _ "variant"
};
