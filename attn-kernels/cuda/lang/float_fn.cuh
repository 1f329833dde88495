// The f32 methods of Rust under the same names, and the language's approximate functions.
#pragma once

#include "lang/types.cuh"

namespace lang {

ATTN_FN float exp(float x) { return ATTN_MATH(expf)(x); }
ATTN_FN float exp2(float x) { return ATTN_MATH(exp2f)(x); }
ATTN_FN float exp_m1(float x) { return ATTN_MATH(expm1f)(x); }
ATTN_FN float ln(float x) { return ATTN_MATH(logf)(x); }
ATTN_FN float ln_1p(float x) { return ATTN_MATH(log1pf)(x); }
ATTN_FN float log2(float x) { return ATTN_MATH(log2f)(x); }
ATTN_FN float log10(float x) { return ATTN_MATH(log10f)(x); }
ATTN_FN float sqrt(float x) { return ATTN_MATH(sqrtf)(x); }
ATTN_FN float recip(float x) {
#ifdef ATTN_HOST
  return 1.f / x;
#else
  return reciprocal(x);
#endif
}
ATTN_FN Pair sin_cos(float x) {
#ifdef ATTN_HOST
  return Pair{ATTN_MATH(sinf)(x), ATTN_MATH(cosf)(x)};
#else
  Pair result;
  sine_cosine(x, result.x, result.y);
  return result;
#endif
}
ATTN_FN float sin(float x) { return sin_cos(x).x; }
ATTN_FN float cos(float x) { return sin_cos(x).y; }
ATTN_FN float tan(float x) { return ATTN_MATH(tanf)(x); }
ATTN_FN float tanh(float x) { return ATTN_MATH(tanhf)(x); }
ATTN_FN float powf(float x, float y) { return ATTN_MATH(powf)(x, y); }
ATTN_FN float powi(float x, int n) {
  float result = 1.f;
  for (u32 left = n < 0 ? 0u - u32(n) : u32(n); left != 0; left /= 2) {
    if (left & 1) result *= x;
    x *= x;
  }
  return n < 0 ? 1.f / result : result;
}
ATTN_FN float mul_add(float a, float b, float c) { return ATTN_MATH(fmaf)(a, b, c); }
ATTN_FN float floor(float x) { return ATTN_MATH(floorf)(x); }
ATTN_FN float ceil(float x) { return ATTN_MATH(ceilf)(x); }
ATTN_FN float trunc(float x) { return ATTN_MATH(truncf)(x); }
ATTN_FN float fract(float x) { return x - trunc(x); }
ATTN_FN float round(float x) { return ATTN_MATH(roundf)(x); }
ATTN_FN float round_ties_even(float x) { return ATTN_MATH(rintf)(x); }
ATTN_FN float copysign(float x, float sign) { return ATTN_MATH(copysignf)(x, sign); }
ATTN_FN bool is_nan(float x) { return x != x; }
ATTN_FN bool is_finite(float x) { return (to_bits(x) & 0x7f800000u) != 0x7f800000u; }
ATTN_FN bool is_infinite(float x) { return (to_bits(x) & 0x7fffffffu) == 0x7f800000u; }
ATTN_FN bool is_sign_negative(float x) { return to_bits(x) >> 31; }
ATTN_FN bool is_sign_positive(float x) { return !is_sign_negative(x); }

// ---- approx: one instruction on the GPU; accurate on the host, and in kernels over f32 (attn-core/src/lang/approx.rs)
#ifdef ATTN_HOST
#define ATTN_ACCURATE
#endif

ATTN_FN float approx_tanh(float x) {
#ifdef ATTN_ACCURATE
  return tanh(x);
#else
  float y;
  asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#endif
}
ATTN_FN float approx_exp(float x) {
#ifdef ATTN_ACCURATE
  return exp(x);
#else
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * 1.4426950408889634f));
  return y;
#endif
}
ATTN_FN Pair approx_sin_cos(float x) {
#ifdef ATTN_ACCURATE
  return sin_cos(x);
#else
  // Reduces the argument by multiples of 2 pi, given in two parts. Adding TO_INTEGER rounds to an integer.
  constexpr float TO_INTEGER = 12582912.f, TURN = 6.28318548f, TURN_REST = -1.7484556e-7f;
  float turns = fmaf(x, 0.15915494f, TO_INTEGER) - TO_INTEGER;
  float angle = fmaf(turns, -TURN_REST, fmaf(turns, -TURN, x));
  Pair result;
  asm("sin.approx.ftz.f32 %0, %1;" : "=f"(result.x) : "f"(angle));
  asm("cos.approx.ftz.f32 %0, %1;" : "=f"(result.y) : "f"(angle));
  return result;
#endif
}
ATTN_FN float approx_recip(float x) {
#ifdef ATTN_ACCURATE
  return recip(x);
#else
  return reciprocal_estimate(x);
#endif
}

}  // namespace lang
