/// DeepSeek's FP8 cache of latent attention (MLA): records of 656 bytes for rows of 576 elements.
///
/// The first 512 elements, which are the values too, are e4m3 in four groups of 128 with f32 scales that are powers of
/// two: `x = e4m3 * scale`, `scale = 2^ceil(log2(max(max(|x|) / 448, 1e-4)))`. The last 64, the part with RoPE, are
/// bf16. A record is 512 bytes of e4m3, 16 of scales, 128 of bf16, without side data: the cache of FlashMLA
/// (`V32_FP8Sparse` in its tests) and of vLLM (`fp8_ds_mla`) for DeepSeek V3.2 (the architecture: arXiv 2412.19437).
/// The power is exact; theirs comes from `log2` in f32, which is half of it where a quotient is within 1e-6 above a
/// power of two. A group with a NaN or an infinity is read as NaN.
struct KeyFormat {

#line _ "variants/src/kv_formats/ds_mla.rs"
  template <class R, class C, class S> ATTN_FN void encode(const R& x, C& codes, S& _side, int _kv_head) const {
    ATTN_UNROLL
    for (int g = 0; g < 4; ++g) {
      const float least = div_rn(x.max_abs(128 * g, 128), 448.0f);
      const float scale = bits::pow2_ceil(least < 0.0001f ? 0.0001f : least);
      codes.set_f32(512 + 4 * g, scale);
      codes.pack8(128 * g, x, 128 * g, 128, [&](int, float v) -> u32 { return bits::e4m3_bits(div_rn(v, scale)); });
    }
    codes.pack16(528, x, 512, 64, [&](int, float v) -> u32 { return bits::bf16_bits(v); });
  }

#line _ "variants/src/kv_formats/ds_mla.rs"
  template <class Eight = Array<float, 8>, class C, class S> ATTN_FN Eight decode(C codes, S _side, int _kv_head, int d) const {
    if (d < 512) {
      return codes.scaled_e4m3(d, codes.f32_at(512 + d / 128 * 4));
    }
    Array<float, 8> out = repeat<8>(0.0f);
    const int at = 528 + 2 * (d - 512);
    const Array<u32, 2> low = codes.words2(at);
    const Array<u32, 2> high = codes.words2(at + 8);
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
