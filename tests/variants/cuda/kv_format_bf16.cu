/// Sixteen bits an element as bf16, for pairs such as `bf16 / int4`.
///
/// `x = bf16`, rounded to nearest even. A row is `2 * dim` bytes of codes, without side data: the same bytes as a
/// tensor of bf16. bf16 is the format of Google's TPUs (arXiv 1905.12322).
struct KeyFormat {

#line _ "variants/src/kv_formats/half.rs"
  template <class R, class C, class S> ATTN_FN void encode(const R& x, C& codes, S& _side, int _kv_head) const {
    codes.pack16(0, x, 0, x.dim(), [&](int, float v) -> u32 { return bits::bf16_bits(v); });
  }

#line _ "variants/src/kv_formats/half.rs"
  template <class Eight = Array<float, 8>, class C, class S> ATTN_FN Eight decode(C codes, S _side, int _kv_head, int d) const {
    const Array<u32, 2> low = codes.words2(2 * d);
    const Array<u32, 2> high = codes.words2(2 * d + 8);
    Array<float, 8> out = repeat<8>(0.0f);
    ATTN_UNROLL
    for (int i = 0; i < 4; ++i) {
      const u32 shift = u32(16 * (i % 2));
      out.set(i, bits::bf16_value(shr(low[i / 2], shift)));
      out.set(i + 4, bits::bf16_value(shr(high[i / 2], shift)));
    }
    return out;
  }

  template <class S> ATTN_FN float scale(S, int, int) const { return 1.f; }

  template <class S> ATTN_FN float zero(S, int, int) const { return 0.f; }

  ATTN_FN float level(int) const { return 0.f; }
#line _ "variant"
};
