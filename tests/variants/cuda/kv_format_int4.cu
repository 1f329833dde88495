/// Four bits an element, in groups with an f16 scale and, if asked for, an f16 smallest value.
///
/// Without `zero`: `x = code * scale`, `scale = f16(max(|x|) / 7)`, codes from -8 to 7 in two's complement. With it:
/// `x = code * scale + zero`, `zero = f16(min(x))`, `scale = f16((max(x) - zero) / 15)`, codes from 0 to 15. Both over
/// groups of `group` consecutive elements, as values are quantised in KIVI (arXiv 2402.02750). Rounding is to nearest
/// even; the scale that an element is divided by is the stored one. A row is `dim / 2` bytes of codes, the even element
/// in the lower half of a byte. Side data are `dim / group` scales of 2 bytes, padded with zeros to whole words, or as
/// many pairs (scale, zero). A scale beyond the range of f16 is its largest number. A group with a NaN or an infinity
/// is read as NaN.
struct KeyFormat {
  int group_;
  alignas(4) bool zero_;
  Divisor<int> group_div_;
  static constexpr float saturated_F16_MAX_ = 65504.0f;

  /// The nearest f16; a finite number saturates.
#line _ "variants/src/kv_formats/int4.rs"
  static ATTN_FN float saturated_fn(float x) {
    return bits::f16_round(abs(x) > saturated_F16_MAX_ && is_finite(x) ? copysign(saturated_F16_MAX_, x) : x);
  }

#line _ "variants/src/kv_formats/int4.rs"
  template <class R, class C, class S> ATTN_FN void encode(const R& x, C& codes, S& side, int _kv_head) const {
    const int groups = div_by(x.dim(), group_div_);
    if (!zero_ && groups % 2 == 1) {
      side.set_u16(2 * groups, 0u);
    }
    const int end = groups;
    for (int g = 0; g < end; ++g) {
      const int first = mul(g, group_);
      if (zero_) {
        const float zero = saturated_fn(x.min(first, group_));
        const float scale = saturated_fn(div_rn(x.max(first, group_) - zero, 15.0f));
        side.set_f16(4 * g, scale);
        side.set_f16(4 * g + 2, zero);
        codes.pack4(first / 2, x, first, group_, [&](int, float v) -> u32 {
          return scale == 0.0f ? 0u : cast_u32(clamp(round_ties_even(div_rn(v - zero, scale)), 0.0f, 15.0f));
        });
      } else {
        const float scale = saturated_fn(div_rn(x.max_abs(first, group_), 7.0f));
        side.set_f16(2 * g, scale);
        codes.pack4(first / 2, x, first, group_, [&](int, float v) -> u32 {
          return scale == 0.0f ? 0u : u32(cast_i32(clamp(round_ties_even(div_rn(v, scale)), -8.0f, 7.0f)));
        });
      }
    }
  }

#line _ "variants/src/kv_formats/int4.rs"
  template <class Eight = Array<float, 8>, class C, class S> ATTN_FN Eight decode(C codes, S side, int _kv_head, int d) const {
    const u32 word = codes.u32_at(d / 2);
    const int g = div_by(d, group_div_);
    Array<float, 8> out = repeat<8>(0.0f);
    if (zero_) {
      const float scale = side.f16_at(4 * g);
      const float zero = side.f16_at(4 * g + 2);
      ATTN_UNROLL
      for (int i = 0; i < 8; ++i) {
        out.set(i, mul_add(float(shr(word, u32(4 * i)) & 15u), scale, zero));
      }
    } else {
      const float scale = side.f16_at(2 * g);
      ATTN_UNROLL
      for (int i = 0; i < 8; ++i) {
        out.set(i, mul_rn(float(int(shl(word, u32(28 - 4 * i))) >> 28), scale));
      }
    }
    return out;
  }

#line _ "variants/src/kv_formats/int4.rs"
  template <class S> ATTN_FN float scale(S side, int _kv_head, int group) const {
    return side.f16_at(zero_ ? 4 * group : 2 * group);
  }

#line _ "variants/src/kv_formats/int4.rs"
  template <class S> ATTN_FN float zero(S side, int _kv_head, int group) const {
    return side.f16_at(4 * group + 2);
  }

  ATTN_FN float level(int) const { return 0.f; }
#line _ "variant"
};
