/// Eight or four bits an element, with a scale for each channel: a head's element `d` of every token.
///
/// `x = code * scales[kv_head, d]`, rounded to nearest even. The scales are calibrated beforehand, as `max(|x|) / 127`
/// or `max(|x|) / 7` over some text; what exceeds them is clamped. Outliers of keys lie in few channels, which is why
/// KIVI (arXiv 2402.02750) and KVQuant (arXiv 2401.18079) quantise keys so. A row is `dim` bytes of codes from -127 to
/// 127, or `dim / 2` of codes from -8 to 7 in two's complement, the even element in the lower half of a byte; it has no
/// side data. A NaN is stored as 0.
struct KeyFormat {
  int bits_;
  Tensor2<float> scales_;

#line _ "variants/src/kv_formats/per_channel.rs"
  template <class R, class C, class S> ATTN_FN void encode(const R& x, C& codes, S& _side, int kv_head) const {
    if (bits_ == 4) {
      codes.pack4(0, x, 0, x.dim(), [&](int d, float v) -> u32 { return u32(cast_i32(clamp(round_ties_even(div_rn(v, scales_(kv_head, d))), -8.0f, 7.0f))); });
    } else {
      codes.pack8(0, x, 0, x.dim(), [&](int d, float v) -> u32 { return u32(cast_i32(clamp(round_ties_even(div_rn(v, scales_(kv_head, d))), -127.0f, 127.0f))); });
    }
  }

#line _ "variants/src/kv_formats/per_channel.rs"
  template <class Eight = Array<float, 8>, class C, class S> ATTN_FN Eight decode(C codes, S _side, int kv_head, int d) const {
    Array<float, 8> out = repeat<8>(0.0f);
    if (bits_ == 4) {
      const u32 word = codes.u32_at(d / 2);
      ATTN_UNROLL
      for (int i = 0; i < 8; ++i) {
        const int code = int(shl(word, u32(28 - 4 * i))) >> 28;
        out.set(i, mul_rn(float(code), scales_(kv_head, d + i)));
      }
    } else {
      const Array<u32, 2> words = codes.words2(d);
      ATTN_UNROLL
      for (int i = 0; i < 8; ++i) {
        const int code = int(shl(words[i / 4], u32(24 - 8 * (i % 4)))) >> 24;
        out.set(i, mul_rn(float(code), scales_(kv_head, d + i)));
      }
    }
    return out;
  }

  template <class S> ATTN_FN float scale(S, int, int) const { return 1.f; }

  template <class S> ATTN_FN float zero(S, int, int) const { return 0.f; }

  ATTN_FN float level(int) const { return 0.f; }
#line _ "variant"
};
