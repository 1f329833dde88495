// Branch-free sine, cosine and reciprocal. CUDA's own are long and full of branches: they would be most of a kernel
// with RoPE, and their branches would keep elements from overlapping.
//
// They are plain arithmetic, so that a host compiler can compile them: tests/tests/math.rs compares them with f64. The
// language's own host functions do not use them but call the C library, as Rust does.
#pragma once

#ifdef ATTN_HOST
#define ATTN_FN inline
#define ATTN_CALL inline
#define ATTN_MATH(f) __builtin_##f
#else
#define ATTN_FN __device__ __forceinline__
#define ATTN_CALL __device__ __noinline__
#define ATTN_MATH(f) ::f
#endif

namespace lang {

using u32 = unsigned int;
using u64 = unsigned long long;
using i64 = long long;

ATTN_FN u32 to_bits(float x) {
#ifdef ATTN_HOST
  u32 bits;
  __builtin_memcpy(&bits, &x, 4);
  return bits;
#else
  return __float_as_uint(x);
#endif
}
ATTN_FN float from_bits(u32 bits) {
#ifdef ATTN_HOST
  float x;
  __builtin_memcpy(&x, &bits, 4);
  return x;
#else
  return __uint_as_float(bits);
#endif
}

ATTN_FN float float_of_e4m3(u32 code) {
#if __CUDA_ARCH__ >= 890
  // f16 holds every e4m3; the code of the upper half is not looked at
  float x;
  u32 two;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(two) : "h"((unsigned short)code));
  asm("{.reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, low;}" : "=f"(x) : "r"(two));
  return x;
#else
  u32 size = code & 0x7f;
  u32 whole = size == 0x7f ? 0x7fc00000u : to_bits(from_bits(size << 20) * 0x1p120f);
  return from_bits(whole | (code & 0x80) << 24);
#endif
}

// ---- sine and cosine: 2 units in the last place, any argument ----

// x = quarter * pi / 2 + rest. Only the last two bits of `quarter` matter.
struct Angle {
  float rest;
  u32 quarter;
};

// Payne-Hanek reduction for |x| >= 2^20, NaN and the infinities: x * 2 / pi in integer arithmetic, modulo 4. It is
// rare, so it is a call and exists once in a kernel.
ATTN_CALL Angle reduce_huge_angle(float x) {
  // Five zero bits, then 2 / pi.
  static const u32 TWO_OVER_PI[7] = {0x0517cc1b, 0x727220a9, 0x4fe13abe, 0x8fa9a6ee,
                                     0x06db14ac, 0xc9e21c82, 0x0ff28b1d};
  u32 bits = to_bits(x);
  int exponent = int(bits >> 23 & 255) - 150;  // x = mantissa * 2^exponent
  if (exponent > 104) return {from_bits(0x7fc00000u), 0};
  u32 mantissa = (bits & 0x7fffffu) | 0x800000u;
  // 96 bits of 2 / pi, the first of which has weight 2 after multiplication by 2^exponent.
  int first = exponent + 3, word = first / 32, shift = first % 32;
  u32 window[3];
  for (int i = 0; i < 3; ++i)
    window[i] = u32(((u64(TWO_OVER_PI[word + i]) << 32 | TWO_OVER_PI[word + i + 1]) << shift) >> 32);
  u64 low = (u64(mantissa) * window[2] >> 32) + u64(mantissa) * window[1];
  u64 turns = (u64(mantissa * window[0]) << 32) + low;  // in units of 2^-62 quarters
  u32 quarter = u32((turns + (1ull << 61)) >> 62);
  long long over = (long long)(turns - (u64(quarter) << 62));
  float high = float(over), low_part = float(over - (long long)high);
  float rest = ATTN_MATH(fmaf)(high, 1.5707963705f, ATTN_MATH(fmaf)(high, -4.371138829e-8f, low_part * 1.5707963705f));
  rest *= 2.168404345e-19f;
  return bits >> 31 ? Angle{-rest, 0u - quarter} : Angle{rest, quarter};
}

// Cody-Waite reduction for |x| < 2^20: subtracts pi / 2 in three parts, the first without rounding error.
ATTN_FN Angle reduce_angle(float x) {
  if (!(ATTN_MATH(fabsf)(x) < 1048576.f)) return reduce_huge_angle(x);
  constexpr float TO_INTEGER = 12582912.f;  // 1.5 * 2^23: adding it rounds to an integer, which the last bits hold
  float shifted = ATTN_MATH(fmaf)(x, 0.6366197467f, TO_INTEGER);
  float quarter = shifted - TO_INTEGER;
  float rest = ATTN_MATH(fmaf)(quarter, -1.5707963705f, x);
  rest = ATTN_MATH(fmaf)(quarter, 4.371138829e-8f, rest);
  rest = ATTN_MATH(fmaf)(quarter, 1.7151245100e-15f, rest);
  return {rest, to_bits(shifted)};
}

// Evaluates both polynomials (minimax up to 0.83) and selects. Both results cost little more than one.
ATTN_FN void sine_cosine(float x, float& sine, float& cosine) {
  Angle angle = reduce_angle(x);
  float rest = angle.rest, square = rest * rest;
  float odd = ATTN_MATH(fmaf)(square, -1.947978890e-4f, 8.331893943e-3f);
  odd = ATTN_MATH(fmaf)(square, odd, -0.1666665077f);
  odd = ATTN_MATH(fmaf)(square * rest, odd, rest);
  float even = ATTN_MATH(fmaf)(square, 2.439637137e-5f, -1.388699398e-3f);
  even = ATTN_MATH(fmaf)(square, even, 4.166663811e-2f);
  even = ATTN_MATH(fmaf)(square, even, -0.5f);
  even = ATTN_MATH(fmaf)(square, even, 1.f);
  bool swapped = angle.quarter & 1;
  u32 sign = angle.quarter << 30;  // the first bit is the sine's sign; the cosine's is that of the next quarter
  sine = from_bits(to_bits(swapped ? even : odd) ^ (sign & 0x80000000u));
  cosine = from_bits(to_bits(swapped ? odd : even) ^ ((sign + 0x40000000u) & 0x80000000u));
}

// ---- reciprocal ----

#ifdef ATTN_HOST
static int estimate_noise = 0;  // error of the estimate in units of the last place, set by the test
#endif

// 1 / x, relative error 2^-23 unless the result is denormal.
ATTN_FN float reciprocal_estimate(float x) {
#ifdef ATTN_HOST
  float y = 1.f / x;
  return y == 0.f || y - y != 0.f ? y : from_bits(to_bits(y) + u32(estimate_noise));
#else
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#endif
}

// 1 / x without a branch: an estimate and one Newton step. Correctly rounded except for near ties.
ATTN_FN float reciprocal(float x) {
  // Scales x into the range where the estimate is a normal number.
  float size = ATTN_MATH(fabsf)(x);
  float scale = size < 1.17549435e-38f ? 16777216.f : size > 8.507059e37f ? 0.25f : 1.f;
  float scaled = x * scale;
  float estimate = reciprocal_estimate(scaled);
  float error = ATTN_MATH(fmaf)(-scaled, estimate, 1.f);
  // The error is NaN for 0, the infinities and NaN. Their estimate is exact.
  return (error == error ? ATTN_MATH(fmaf)(error, estimate, estimate) : estimate) * scale;
}

}  // namespace lang
