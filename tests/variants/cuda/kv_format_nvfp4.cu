/// NVFP4: four-bit floats (e2m1) in groups of 16 elements with an e4m3 scale.
///
/// `x = e2m1 * scale`, `scale = e4m3(max(|x|) / 6)`, and the f32 scale of the whole tensor is the scale of a run
/// (`KvScales`), best `max(|x|) / (6 * 448)` of the tensor. A row is `dim / 2` bytes of codes, the even element in the
/// lower half of a byte, and side data of a scale a group, padded to 4 bytes: as NVIDIA specifies the format (arXiv
/// 2509.25149) and FlashInfer stores it (`nvfp4_quantize_append_paged_kv_cache`, scales in the order of elements).
/// Rounding is to nearest even and saturates: an infinity is read as 6 * 448. A group with a NaN is read as NaN.
struct KeyFormat {

#line _ "variants/src/kv_formats/nvfp4.rs"
  template <class R, class C, class S> ATTN_FN void encode(const R& x, C& codes, S& side, int _kv_head) const {
    const int end = (x.dim() + 15) / 16;
    for (int g = 0; g < end; ++g) {
      const int first = 16 * g;
      const int len = min(x.dim() - first, 16);
      const float scale = bits::e4m3_round(div_rn(x.max_abs(first, len), 6.0f));
      side.set_e4m3(g, scale);
      codes.pack4(8 * g, x, first, len, [&](int, float v) -> u32 {
        return scale == 0.0f ? 0u : bits::e2m1_bits(div_rn(v, scale));
      });
    }
  }

#line _ "variants/src/kv_formats/nvfp4.rs"
  template <class Eight = Array<float, 8>, class C, class S> ATTN_FN Eight decode(C codes, S side, int _kv_head, int d) const {
    const u32 word = codes.u32_at(d / 2);
    const float scale = side.e4m3_at(d / 16);
    Array<float, 8> out = repeat<8>(0.0f);
    ATTN_UNROLL
    for (int i = 0; i < 8; ++i) {
      out.set(i, mul_rn(bits::e2m1_value(shr(word, u32(4 * i))), scale));
    }
    return out;
  }

#line _ "variants/src/kv_formats/nvfp4.rs"
  template <class S> ATTN_FN float scale(S side, int _kv_head, int group) const {
    return side.e4m3_at(group);
  }

  template <class S> ATTN_FN float zero(S, int, int) const { return 0.f; }

  ATTN_FN float level(int) const { return 0.f; }
#line _ "variant"
};
