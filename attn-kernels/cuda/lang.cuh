// The language of variants on this side: what the text generated from Rust is made of.
//
// Everything means what it means in Rust: integers wrap, division truncates, shifts are masked, casts from float
// saturate, min and max ignore NaN. Where a plain C++ operator means the same, the generator writes it (index words are
// below 2^30, so their sums and differences cannot overflow); where it may not, it calls a function of this file, since
// NVRTC has no -fwrapv. Integer division by zero, a panic in Rust, gives 0. Of floats, + - * / and sqrt round as in Rust, but
// for products that are contracted into sums; functions agree within a few units in the last place (recip: within one).
//
// No header of CUDA or C++ is included. With ATTN_HOST a host compiler takes the same text: variants are tested without a GPU.
#pragma once

#include "captured.cuh"
#include "index.cuh"
#include "math.cuh"

// ---- tuples ----

template <class A, class B>
struct Tuple2 {
  A x;
  B y;
};
template <class A, class B, class C>
struct Tuple3 {
  A x;
  B y;
  C z;
};
template <class A, class B, class C, class D>
struct Tuple4 {
  A x;
  B y;
  C z;
  D w;
};
using Pair = Tuple2<float, float>;

namespace lang {

using u8 = unsigned char;

constexpr int I32_MIN = -2147483647 - 1;
constexpr float F32_INFINITY = __builtin_bit_cast(float, 0x7f800000);
constexpr float F32_NAN = __builtin_bit_cast(float, 0x7fc00000);

// ---- types ----

// What two operands have in common. Rust has checked that they agree, so that an odd one out is an int literal.
template <class A, class B>
struct JoinOf {};
template <class A>
struct JoinOf<A, A> {
  using Type = A;
};
template <class A>
struct JoinOf<A, int> {
  using Type = A;
};
template <class B>
struct JoinOf<int, B> {
  using Type = B;
};
template <>
struct JoinOf<int, int> {
  using Type = int;
};
// A literal beyond int.
template <>
struct JoinOf<u64, u32> {
  using Type = u64;
};
template <>
struct JoinOf<u32, u64> {
  using Type = u64;
};
template <class A, class B>
using Join = typename JoinOf<A, B>::Type;

template <class T>
struct PlainOf {
  using Type = T;
};
template <class T>
struct PlainOf<const T> {
  using Type = T;
};
template <class T>
using Plain = typename PlainOf<T>::Type;

template <class T>
constexpr bool IS_FLOAT = false;
template <>
constexpr bool IS_FLOAT<float> = true;
template <class T>
constexpr bool IS_BOOL = false;
template <>
constexpr bool IS_BOOL<bool> = true;
template <class T>
constexpr bool IS_SIGNED = T(-1) < T(0);
template <class T>
constexpr int BITS = sizeof(T) * 8;

// The unsigned type of the same width, and one at least as wide as unsigned int to compute in.
template <class T>
struct UnsignedOf {
  using Type = T;
};
template <>
struct UnsignedOf<int> {
  using Type = u32;
};
template <class T>
using Unsigned = typename UnsignedOf<T>::Type;
template <class T>
struct WideOf {
  using Type = u32;
};
template <>
struct WideOf<u64> {
  using Type = u64;
};
template <class T>
using Wide = typename WideOf<T>::Type;

// ---- operators ----

template <class A, class B>
ATTN_FN auto add(A a, B b) {
  using T = Join<A, B>;
  if constexpr (IS_FLOAT<T>)
    return a + b;
  else
    return T(Wide<T>(a) + Wide<T>(b));
}
template <class A, class B>
ATTN_FN auto sub(A a, B b) {
  using T = Join<A, B>;
  if constexpr (IS_FLOAT<T>)
    return a - b;
  else
    return T(Wide<T>(a) - Wide<T>(b));
}
template <class A, class B>
ATTN_FN auto mul(A a, B b) {
  using T = Join<A, B>;
  if constexpr (IS_FLOAT<T>)
    return a * b;
  else
    return T(Wide<T>(a) * Wide<T>(b));
}
template <class T>
ATTN_FN T neg(T a) {
  if constexpr (IS_FLOAT<T>)
    return -a;
  else
    return T(Wide<T>(0) - Wide<T>(a));
}
template <class A, class B>
ATTN_FN auto div(A a, B b) {
  using T = Join<A, B>;
  if constexpr (IS_FLOAT<T>) {
    return a / b;
  } else {
    if (b == 0) return T(0);
    if constexpr (IS_SIGNED<T>) {
      if (b == -1) return neg(T(a));
    }
    return T(T(a) / T(b));
  }
}
template <class A, class B>
ATTN_FN auto rem(A a, B b) {
  using T = Join<A, B>;
  if constexpr (IS_FLOAT<T>) {
    return ATTN_MATH(fmodf)(a, b);
  } else {
    if (b == 0) return T(0);
    if constexpr (IS_SIGNED<T>) {
      if (b == -1) return T(0);
    }
    return T(T(a) % T(b));
  }
}
template <class T>
ATTN_FN T bit_not(T a) {
  if constexpr (IS_BOOL<T>)
    return !a;
  else
    return T(~a);
}
template <class A, class B>
ATTN_FN auto bit_and(A a, B b) {
  using T = Join<A, B>;
  return T(T(a) & T(b));
}
template <class A, class B>
ATTN_FN auto bit_or(A a, B b) {
  using T = Join<A, B>;
  return T(T(a) | T(b));
}
template <class A, class B>
ATTN_FN auto bit_xor(A a, B b) {
  using T = Join<A, B>;
  return T(T(a) ^ T(b));
}
template <class T, class S>
ATTN_FN T shl(T a, S by) {
  return T(Wide<T>(a) << (u32(by) & (BITS<T> - 1)));
}
template <class T, class S>
ATTN_FN T shr(T a, S by) {
  return T(a >> (u32(by) & (BITS<T> - 1)));
}

// ---- casts: floats saturate, NaN is 0 ----

ATTN_FN int cast_i32(float x) {
  return !(x == x) ? 0 : x >= 2147483648.f ? 2147483647 : x <= -2147483648.f ? I32_MIN : int(x);
}
ATTN_FN u32 cast_u32(float x) { return !(x > 0.f) ? 0u : x >= 4294967296.f ? 4294967295u : u32(x); }
ATTN_FN u64 cast_u64(float x) { return !(x > 0.f) ? 0ull : x >= 18446744073709551616.f ? ~0ull : u64(x); }
ATTN_FN u8 cast_u8(float x) { return !(x > 0.f) ? u8(0) : x >= 255.f ? u8(255) : u8(u32(x)); }
template <class T>
ATTN_FN int cast_i32(T x) {
  return int(x);
}
template <class T>
ATTN_FN u32 cast_u32(T x) {
  return u32(x);
}
template <class T>
ATTN_FN u64 cast_u64(T x) {
  return u64(x);
}
template <class T>
ATTN_FN u8 cast_u8(T x) {
  return u8(x);
}

// ---- f32 ----

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

// ---- f32 and integers ----

template <class T>
ATTN_FN T abs(T x) {
  if constexpr (IS_FLOAT<T>)
    return ATTN_MATH(fabsf)(x);
  else
    return x < 0 ? neg(x) : x;
}
template <class A, class B>
ATTN_FN auto min(A a, B b) {
  using T = Join<A, B>;
  if constexpr (IS_FLOAT<T>)
    return ATTN_MATH(fminf)(a, b);
  else
    return T(b) < T(a) ? T(b) : T(a);
}
template <class A, class B>
ATTN_FN auto max(A a, B b) {
  using T = Join<A, B>;
  if constexpr (IS_FLOAT<T>)
    return ATTN_MATH(fmaxf)(a, b);
  else
    return T(a) < T(b) ? T(b) : T(a);
}
template <class A, class B, class C>
ATTN_FN auto clamp(A x, B low, C high) {
  using T = Join<Join<A, B>, C>;
  return T(x) < T(low) ? T(low) : T(x) > T(high) ? T(high) : T(x);
}
template <class T>
ATTN_FN T signum(T x) {
  if constexpr (IS_FLOAT<T>)
    return x != x ? x : copysign(1.f, x);
  else
    return x < 0 ? T(-1) : x > 0 ? T(1) : T(0);
}
template <class A, class B>
ATTN_FN auto rem_euclid(A a, B b) {
  using T = Join<A, B>;
  T r = rem(a, b);
  if constexpr (IS_FLOAT<T> || IS_SIGNED<T>) {
    if (r < 0) r = add(r, abs(T(b)));
  }
  return r;
}
template <class A, class B>
ATTN_FN auto div_euclid(A a, B b) {
  using T = Join<A, B>;
  T q;
  if constexpr (IS_FLOAT<T>)
    q = trunc(div(a, b));
  else
    q = div(a, b);
  if constexpr (IS_FLOAT<T> || IS_SIGNED<T>) {
    if (rem(a, b) < 0) q = T(b) > 0 ? sub(q, T(1)) : add(q, T(1));
  }
  return q;
}

// ---- integers ----

template <class T>
ATTN_FN T pow(T x, u32 n) {
  Wide<T> result = 1, square = Wide<T>(x);
  for (; n != 0; n /= 2) {
    if (n & 1) result *= square;
    square *= square;
  }
  return T(result);
}
template <class A, class B>
ATTN_FN auto wrapping_add(A a, B b) {
  return add(a, b);
}
template <class A, class B>
ATTN_FN auto wrapping_sub(A a, B b) {
  return sub(a, b);
}
template <class A, class B>
ATTN_FN auto wrapping_mul(A a, B b) {
  return mul(a, b);
}
template <class T>
ATTN_FN T wrapping_neg(T a) {
  return neg(a);
}
template <class T>
ATTN_FN T wrapping_shl(T a, u32 by) {
  return shl(a, by);
}
template <class T>
ATTN_FN T wrapping_shr(T a, u32 by) {
  return shr(a, by);
}
template <class A, class B>
ATTN_FN auto saturating_add(A a, B b) {
  using T = Join<A, B>;
  T sum = add(a, b);
  if constexpr (IS_SIGNED<T>)  // overflow: the operands agree in sign, the sum does not
    return ((a ^ sum) & (b ^ sum)) < 0 ? (T(a) < 0 ? I32_MIN : 2147483647) : sum;
  else
    return sum < T(a) ? T(~T(0)) : sum;
}
template <class A, class B>
ATTN_FN auto saturating_sub(A a, B b) {
  using T = Join<A, B>;
  T difference = sub(a, b);
  if constexpr (IS_SIGNED<T>)
    return ((a ^ b) & (a ^ difference)) < 0 ? (T(a) < 0 ? I32_MIN : 2147483647) : difference;
  else
    return T(b) > T(a) ? T(0) : difference;
}
template <class T>
ATTN_FN T rotate_left(T a, u32 by) {
  by &= BITS<T> - 1;
  Unsigned<T> bits = Unsigned<T>(a);
  return by == 0 ? a : T(Unsigned<T>(bits << by) | Unsigned<T>(bits >> (BITS<T> - by)));
}
template <class T>
ATTN_FN T rotate_right(T a, u32 by) {
  return rotate_left(a, BITS<T> - (by & (BITS<T> - 1)));
}
template <class T>
ATTN_FN u32 count_ones(T a) {
#ifdef ATTN_HOST
  return u32(__builtin_popcountll(u64(Unsigned<T>(a))));
#else
  return u32(__popcll(u64(Unsigned<T>(a))));
#endif
}
template <class T>
ATTN_FN u32 leading_zeros(T a) {
  u64 bits = u64(Unsigned<T>(a));
#ifdef ATTN_HOST
  return bits == 0 ? BITS<T> : u32(__builtin_clzll(bits)) - (64 - BITS<T>);
#else
  return u32(__clzll(bits)) - (64 - BITS<T>);
#endif
}
template <class T>
ATTN_FN u32 trailing_zeros(T a) {
  u64 bits = u64(Unsigned<T>(a));
#ifdef ATTN_HOST
  return bits == 0 ? BITS<T> : u32(__builtin_ctzll(bits));
#else
  return bits == 0 ? BITS<T> : u32(__ffsll(bits)) - 1;
#endif
}
template <class T>
ATTN_FN bool is_power_of_two(T a) {
  return count_ones(a) == 1;
}
template <class A, class B>
ATTN_FN auto abs_diff(A a, B b) {
  using T = Join<A, B>;
  return T(a) < T(b) ? Unsigned<T>(sub(b, a)) : Unsigned<T>(sub(a, b));
}
template <class T>
ATTN_FN Unsigned<T> unsigned_abs(T a) {
  return Unsigned<T>(abs(a));
}

// ---- tuples ----

template <class A, class B>
ATTN_FN Tuple2<A, B> tuple(A a, B b) {
  return {a, b};
}
template <class A, class B, class C>
ATTN_FN Tuple3<A, B, C> tuple(A a, B b, C c) {
  return {a, b, c};
}
template <class A, class B, class C, class D>
ATTN_FN Tuple4<A, B, C, D> tuple(A a, B b, C c, D d) {
  return {a, b, c, d};
}

// ---- approx: one instruction on the GPU, accurate on the host, see attn-core/src/lang/approx.rs ----

ATTN_FN float approx_tanh(float x) {
#ifdef ATTN_HOST
  return tanh(x);
#else
  float y;
  asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#endif
}
ATTN_FN float approx_exp(float x) {
#ifdef ATTN_HOST
  return exp(x);
#else
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * 1.4426950408889634f));
  return y;
#endif
}
ATTN_FN float approx_recip(float x) {
#ifdef ATTN_HOST
  return recip(x);
#else
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#endif
}

// ---- composition ----

// The logit of two sinks together.
ATTN_FN float log_add_exp(float a, float b) {
  float most = max(a, b);
  return most == -F32_INFINITY ? most : most + ln(exp(a - most) + exp(b - most));
}

}  // namespace lang
