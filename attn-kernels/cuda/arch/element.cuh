// Element types of tensors (bf16, f16, fp8) and their conversion to and from f32. Units include no CUDA header, so that
// the types are defined here.
#pragma once
#include "lang/choose.cuh"

struct bf16 {
  unsigned short bits;
};
struct f16 {
  unsigned short bits;
};
// fp8 types, of K and V only. They are converted to f16 before the MMA, which represents all of their values exactly.
struct e4m3 {
  unsigned char bits;
};
struct e5m2 {
  unsigned char bits;
};

template <class E>
constexpr bool IS_FP8 = false;
template <>
constexpr bool IS_FP8<e4m3> = true;
template <>
constexpr bool IS_FP8<e5m2> = true;
// A byte of a row of a KV format. Its elements are widened to f16, as those of fp8 are.
struct packed_byte {
  unsigned char bits;
};
template <>
constexpr bool IS_FP8<packed_byte> = true;

inline float to_float(bf16 x) { return __uint_as_float((unsigned)x.bits << 16); }
inline float to_float(f16 x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
}
inline float to_float(float x) { return x; }

template <class E>
E from_float(float x);
template <>
inline bf16 from_float<bf16>(float x) {
#if __CUDA_ARCH__ >= 800
  bf16 y;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
#else
  // to nearest even; NaN keeps its upper bits, of which one is set
  unsigned bits = __float_as_uint(x), rounded = bits + 0x7fffu + (bits >> 16 & 1u);
  return {static_cast<unsigned short>(x == x ? rounded >> 16 : bits >> 16 | 0x40u)};
#endif
}
template <>
inline f16 from_float<f16>(float x) {
  f16 y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
}

// Two elements packed in a register, the first in the low half, each rounded to nearest even. Conversions of pairs came
// with sm_80.
template <class E>
inline unsigned pack2(float first, float second) {
  static_assert(SAME<E, bf16> || SAME<E, f16>, "elements of 16 bits");
#if __CUDA_ARCH__ >= 800
  unsigned y;
  if constexpr (SAME<E, bf16>)
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(second), "f"(first));
  else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(second), "f"(first));
  return y;
#else
  return from_float<E>(first).bits | static_cast<unsigned>(from_float<E>(second).bits) << 16;
#endif
}
// Two f16 packed in a register, saturated: what f16 cannot represent becomes its largest finite value. NaN stays NaN.
inline unsigned pack2_f16_satfinite(float first, float second) {
#if __CUDA_ARCH__ >= 800
  unsigned y;
  asm("cvt.rn.satfinite.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(second), "f"(first));
  return y;
#else
  auto clamped = [](float x) { return x > 65504.f ? 65504.f : x < -65504.f ? -65504.f : x; };
  return pack2<f16>(clamped(first), clamped(second));
#endif
}

template <class E>
float2 unpack2(unsigned x);
template <>
inline float2 unpack2<bf16>(unsigned x) {
  return make_float2(__uint_as_float(x << 16), __uint_as_float(x & 0xffff0000u));
}
template <>
inline float2 unpack2<f16>(unsigned x) {
  float2 y;
  asm("{.reg .f16 lo, hi; mov.b32 {lo, hi}, %2; cvt.f32.f16 %0, lo; cvt.f32.f16 %1, hi;}"
      : "=f"(y.x), "=f"(y.y)
      : "r"(x));
  return y;
}

// The two fp8 elements in the low half of a register, converted to f16 without rounding.
template <class E>
unsigned fp8_to_f16(unsigned x);
template <>
inline unsigned fp8_to_f16<e5m2>(unsigned x) {
  return __byte_perm(x, 0, 0x1404);  // e5m2 is the upper half of an f16
}
template <>
inline unsigned fp8_to_f16<e4m3>(unsigned x) {
  unsigned y;
#if __CUDA_ARCH__ >= 890
  asm("{.reg .b16 h; cvt.u16.u32 h, %1; cvt.rn.f16x2.e4m3x2 %0, h;}" : "=r"(y) : "r"(x));
#else
  // Shifted into f16 fields the value is 2^8 too small, so that it is multiplied by 2^8; NaN becomes 480.
  unsigned spread = __byte_perm(x, 0, 0x1404);
  unsigned bits = (spread & 0x80008000u) | ((spread & 0x7f007f00u) >> 1);
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(y) : "r"(bits), "r"(0x5c005c00u));
#endif
  return y;
}
// Four or eight fp8 elements as f16.
template <class E>
inline uint2 widened(unsigned four) {
  return {fp8_to_f16<E>(four & 0xffff), fp8_to_f16<E>(four >> 16)};
}
template <class E>
inline uint4 widened(uint2 eight) {
  uint2 low = widened<E>(eight.x), high = widened<E>(eight.y);
  return {low.x, low.y, high.x, high.y};
}
