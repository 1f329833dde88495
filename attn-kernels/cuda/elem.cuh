// Element types of tensors, and their conversion to and from f32. No CUDA header is included anywhere.
#pragma once

struct bf16 {
  unsigned short bits;
};
struct f16 {
  unsigned short bits;
};

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
  bf16 y;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
}
template <>
inline f16 from_float<f16>(float x) {
  f16 y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
}

// Two elements in a register, the first in the low half, each rounded to nearest even.
template <class E>
unsigned pack2(float first, float second);
template <>
inline unsigned pack2<bf16>(float first, float second) {
  unsigned y;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(second), "f"(first));
  return y;
}
template <>
inline unsigned pack2<f16>(float first, float second) {
  unsigned y;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(second), "f"(first));
  return y;
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
  asm("{.reg .f16 lo, hi; mov.b32 {lo, hi}, %2; cvt.f32.f16 %0, lo; cvt.f32.f16 %1, hi;}" : "=f"(y.x), "=f"(y.y) : "r"(x));
  return y;
}
