/// MXFP8: eight-bit floats (e4m3) in groups of 32 elements with a power of two as their scale (e8m0).
///
/// `x = e4m3 * 2^(E - 127)`, `E - 127 = floor(log2(max(|x|))) - 8`, as OCP Microscaling Formats 1.0 converts (section
/// 6.3; arXiv 2310.10537); 8 is the largest exponent of e4m3. A row is `dim` bytes of codes, and side data of a byte
/// `E` a group, padded to 4 bytes. Rounding is to nearest even, and magnitudes above 448 times the scale saturate. A
/// group with a NaN or an infinity has `E = 255` and is read as NaN.
struct KeyFormat {

#line _ "variants/src/kv_formats/mx_fp8.rs"
  template <class R, class C, class S> ATTN_FN void encode(const R& x, C& codes, S& side, int _kv_head) const {
    const int end = (x.dim() + 31) / 32;
    for (int g = 0; g < end; ++g) {
      const int first = 32 * g;
      const int len = min(x.dim() - first, 32);
      const int exponent = bits::exponent(x.max_abs(first, len));
      const u32 stored = exponent == 255 ? 255u : u32(max(sub(exponent, 8), 0));
      const float scale = bits::e8m0_value(stored);
      side.set_u8(g, stored);
      codes.pack8(first, x, first, len, [&](int, float v) -> u32 { return bits::e4m3_bits(div_rn(v, scale)); });
    }
  }

#line _ "variants/src/kv_formats/mx_fp8.rs"
  template <class Eight = Array<float, 8>, class C, class S> ATTN_FN Eight decode(C codes, S side, int _kv_head, int d) const {
    return codes.scaled_e4m3(d, side.e8m0_at(d / 32));
  }

#line _ "variants/src/kv_formats/mx_fp8.rs"
  template <class S> ATTN_FN float scale(S side, int _kv_head, int group) const {
    return side.e8m0_at(group);
  }

  template <class S> ATTN_FN float zero(S, int, int) const { return 0.f; }

  ATTN_FN float level(int) const { return 0.f; }
#line _ "variant"
};
