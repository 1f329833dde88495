/// Four bits an element: the nearest of 16 levels for normally distributed numbers, times a norm in f32.
///
/// `x = levels[code] * norm`. The code of an element is the number of midpoints between levels that lie below `x / (|x|
/// / sqrt(dim))`, `|x|` the Euclidean norm of the row; `norm` is `|x|` divided by that of the levels, so that lengths
/// are kept. The levels minimise the mean square error of a normal distribution of variance 1 (Lloyd-Max), which
/// elements have approximately after a rotation: use it with `hadamard`. This is TurboQuant (arXiv 2504.19874) at four
/// bits without its second stage, and older work has the same scheme: DRIVE (arXiv 2105.08339), EDEN (arXiv
/// 2108.08842), HIGGS (arXiv 2411.17525). A row is `dim / 2` bytes of codes, the even element in the lower half of a
/// byte, and 4 bytes of side data. A row with a NaN is read as NaN, one with an infinity as infinities.
struct KeyFormat {
  Tensor1<float> levels_;

#line _ "variants/src/kv_formats/turbo4.rs"
  template <class R, class C, class S> ATTN_FN void encode(const R& x, C& codes, S& side, int _kv_head) const {
    const float length = sqrt(x.sum_sq(0, x.dim()));
    const float unit = div_rn(length, sqrt(float(x.dim())));
    const float of_levels = x.sum(0, x.dim(), [&](int, float v) -> float {
      int code = 0;
      ATTN_UNROLL
      for (int i = 0; i < 15; ++i) {
        code = add(code, mul_rn(levels_[i] + levels_[i + 1], 0.5f) < div_rn(v, unit) ? 1 : 0);
      }
      return mul_rn(levels_[code], levels_[code]);
    });
    side.set_f32(0, div_rn(length, sqrt(of_levels)));
    codes.pack4(0, x, 0, x.dim(), [&](int, float v_2) -> u32 {
      u32 code_2 = 0u;
      ATTN_UNROLL
      for (int i_2 = 0; i_2 < 15; ++i_2) {
        code_2 += mul_rn(levels_[i_2] + levels_[i_2 + 1], 0.5f) < div_rn(v_2, unit) ? 1u : 0u;
      }
      return code_2;
    });
  }

#line _ "variants/src/kv_formats/turbo4.rs"
  template <class Eight = Array<float, 8>, class C, class S> ATTN_FN Eight decode(C codes, S side, int _kv_head, int d) const {
    const u32 word = codes.u32_at(d / 2);
    const float norm = side.f32_at(0);
    Array<float, 8> out = repeat<8>(0.0f);
    ATTN_UNROLL
    for (int i = 0; i < 8; ++i) {
      out.set(i, mul_rn(levels_[int(shr(word, u32(4 * i)) & 15u)], norm));
    }
    return out;
  }

#line _ "variants/src/kv_formats/turbo4.rs"
  template <class S> ATTN_FN float scale(S side, int _kv_head, int _group) const {
    return side.f32_at(0);
  }

  template <class S> ATTN_FN float zero(S, int, int) const { return 0.f; }

#line _ "variants/src/kv_formats/turbo4.rs"
  ATTN_FN float level(int code) const {
    return levels_[code];
  }
#line _ "variant"
};
