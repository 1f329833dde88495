/// Eight bits an element, with one f32 scale for each token and head.
///
/// `x = code * scale`, `scale = max(|x|) / 127`, codes from -127 to 127, rounded to nearest even. A row of `dim`
/// elements is `dim` bytes of codes, and 4 bytes of side data that hold the scale. The granularity is that of vLLM's
/// `int8_per_token_head`, and finer than that of LLM.int8() (arXiv 2208.07339), which scales whole tokens. A row with a
/// NaN or an infinity is read as NaN.
struct KeyFormat {

#line _ "variants/src/kv_formats/int8.rs"
  template <class R, class C, class S> ATTN_FN void encode(const R& x, C& codes, S& side, int _kv_head) const {
    const float scale = div_rn(x.max_abs(0, x.dim()), 127.0f);
    side.set_f32(0, scale);
    codes.pack8(0, x, 0, x.dim(), [&](int, float v) -> u32 {
      return scale == 0.0f ? 0u : u32(cast_i32(clamp(round_ties_even(div_rn(v, scale)), -127.0f, 127.0f)));
    });
  }

#line _ "variants/src/kv_formats/int8.rs"
  template <class Eight = Array<float, 8>, class C, class S> ATTN_FN Eight decode(C codes, S side, int _kv_head, int d) const {
    const Array<u32, 2> words = codes.words2(d);
    const float scale = side.f32_at(0);
    Array<float, 8> out = repeat<8>(0.0f);
    ATTN_UNROLL
    for (int i = 0; i < 8; ++i) {
      const int code = int(shl(words[i / 4], u32(24 - 8 * (i % 4)))) >> 24;
      out.set(i, mul_rn(float(code), scale));
    }
    return out;
  }

#line _ "variants/src/kv_formats/int8.rs"
  template <class S> ATTN_FN float scale(S side, int _kv_head, int _group) const {
    return side.f32_at(0);
  }

  template <class S> ATTN_FN float zero(S, int, int) const { return 0.f; }

  ATTN_FN float level(int) const { return 0.f; }
#line _ "variant"
};
