// Converts f32 to and from FP8, rounded to nearest even and saturated, in integer arithmetic: for GPUs without the
// instructions, and for host compilers (tests/tests/op_fp8.rs compares it with Rust).
#pragma once
#include "lang/math.cuh"

// e4m3: bias 7, 3 mantissa bits, maximum 448; NaN is 0x7f.
ATTN_FN unsigned e4m3_of_float(float x) {
  unsigned bits = lang::to_bits(x), sign = bits >> 24 & 0x80, size = bits & 0x7fffffffu;
  if (size > 0x7f800000u) return 0x7f;
  if (size >= 0x43e80000u) return sign | 0x7e;  // 464 and above saturate
  // subnormals, below 2^-6, in units of 2^-9: adding 1.5 * 2^23 leaves the integer in the last bits of the sum
  if (size < 0x3c800000u) return sign | (lang::to_bits(lang::from_bits(size) * 512.f + 12582912.f) & 0xff);
  unsigned code = ((size + 0x7ffffu + (size >> 20 & 1)) >> 20) - (120u << 3);
  return sign | (code > 0x7e ? 0x7e : code);
}

// e5m2: bias 15, 2 mantissa bits, maximum 57344; the infinities saturate too.
ATTN_FN unsigned e5m2_of_float(float x) {
  unsigned bits = lang::to_bits(x), sign = bits >> 24 & 0x80, size = bits & 0x7fffffffu;
  if (size > 0x7f800000u) return 0x7f;
  if (size >= 0x47600000u) return sign | 0x7b;
  if (size < 0x38800000u) return sign | (lang::to_bits(lang::from_bits(size) * 65536.f + 12582912.f) & 0xff);
  unsigned code = ((size + 0xfffffu + (size >> 21 & 1)) >> 21) - (112u << 2);
  return sign | (code > 0x7b ? 0x7b : code);
}

#ifndef ATTN_HOST
// Converts two elements; the first is in the low byte.
template <class E>
inline unsigned fp8_pair(float first, float second) {
  constexpr bool IS_E4M3 = SAME<E, e4m3>;
  static_assert(IS_E4M3 || SAME<E, e5m2>, "elements of fp8");
#if __CUDA_ARCH__ >= 890
  unsigned short y;
  if constexpr (IS_E4M3)
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(y) : "f"(second), "f"(first));
  else
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(y) : "f"(second), "f"(first));
  return y;
#else
  auto code = [](float x) { return IS_E4M3 ? e4m3_of_float(x) : e5m2_of_float(x); };
  return code(first) | code(second) << 8;
#endif
}
#endif
