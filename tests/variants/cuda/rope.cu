#line _ "variant"
namespace lang {

/// Rotary embedding: queries and keys are rotated by their positions.
///
/// Pair `i` of a row, `i < rot / 2`, is rotated by the angle `pos * inv_freq[i]` with
/// `inv_freq[i] = theta^(-2 i / rot) / scale` (RoFormer, arXiv 2104.09864): `(a, b)` becomes
/// `(a cos - b sin, b cos + a sin)`. `pos` is `qo_pos` for queries and `kv_pos` for keys. Half-split pairs are
/// `(i, i + rot / 2)` (GPT-NeoX, Llama as in Hugging Face); interleaved ones `(2 i, 2 i + 1)` (GPT-J, Llama as
/// released). Values from `rot` on stay as they are.
///
/// `inv_freq` is computed on the host in f64 and stored in f32; the angle is an f32 product, its sine and cosine are
/// to 2^-20 on a GPU ([`approx::sin_cos`]). The cache must hold keys that are not rotated yet.
struct Rope {
  float theta_;
  float scale_;
  alignas(4) bool interleaved_;
  int rotary_dim_;
  Tensor1<float> inv_freq_;

#line _ "variants/src/rotary/rope.rs"
  template <class R> ATTN_FN void query_transform(R& q, RowIndex at) const {
    const int rot = rotary_dim_ == 0 ? q.dim() : rotary_dim_;
    const float pos = float(at.qo_pos);
    if (interleaved_) {
      q.rotate_pairs(rot, [&](int i) -> Pair {
        const Pair whole = approx_sin_cos(pos * inv_freq_[i]);
        const float sin_2 = whole.x;
        const float cos_2 = whole.y;
        return Pair{cos_2, sin_2};
      });
    } else {
      q.rotate_half(rot, [&](int i) -> Pair {
        const Pair whole = approx_sin_cos(pos * inv_freq_[i]);
        const float sin_2 = whole.x;
        const float cos_2 = whole.y;
        return Pair{cos_2, sin_2};
      });
    }
  }

#line _ "variants/src/rotary/rope.rs"
  template <class R> ATTN_FN void key_transform(R& k, KvIndex at) const {
    const int rot = rotary_dim_ == 0 ? k.dim() : rotary_dim_;
    const float pos = float(at.kv_pos);
    if (interleaved_) {
      k.rotate_pairs(rot, [&](int i) -> Pair {
        const Pair whole = approx_sin_cos(pos * inv_freq_[i]);
        const float sin_2 = whole.x;
        const float cos_2 = whole.y;
        return Pair{cos_2, sin_2};
      });
    } else {
      k.rotate_half(rot, [&](int i) -> Pair {
        const Pair whole = approx_sin_cos(pos * inv_freq_[i]);
        const float sin_2 = whole.x;
        const float cos_2 = whole.y;
        return Pair{cos_2, sin_2};
      });
    }
  }
#line _ "variant"
};
