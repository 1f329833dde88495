// Operators and casts with Rust's semantics where C++ differs: integers wrap, shifts are masked, division by zero gives
// 0, casts from float saturate and map NaN to 0.
#pragma once

#include "lang/types.cuh"

namespace lang {

#define ATTN_ARITHMETIC(NAME, OP)         \
  template <class A, class B>             \
  ATTN_FN auto NAME(A a, B b) {           \
    using T = Join<A, B>;                 \
    if constexpr (IS_FLOAT<T>)            \
      return a OP b;                      \
    else                                  \
      return T(Wide<T>(a) OP Wide<T>(b)); \
  }
ATTN_ARITHMETIC(add, +)
ATTN_ARITHMETIC(sub, -)
ATTN_ARITHMETIC(mul, *)
#undef ATTN_ARITHMETIC

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
#define ATTN_BITWISE(NAME, OP)  \
  template <class A, class B>   \
  ATTN_FN auto NAME(A a, B b) { \
    using T = Join<A, B>;       \
    return T(T(a) OP T(b));     \
  }
ATTN_BITWISE(bit_and, &)
ATTN_BITWISE(bit_or, |)
ATTN_BITWISE(bit_xor, ^)
#undef ATTN_BITWISE

template <class T, class S>
ATTN_FN T shl(T a, S by) {
  return T(Wide<T>(a) << (u32(by) & (BITS<T> - 1)));
}
template <class T, class S>
ATTN_FN T shr(T a, S by) {
  return T(a >> (u32(by) & (BITS<T> - 1)));
}

// ---- casts ----

ATTN_FN int cast_i32(float x) {
  return !(x == x) ? 0 : x >= 2147483648.f ? 2147483647 : x <= -2147483648.f ? I32_MIN : int(x);
}
ATTN_FN u32 cast_u32(float x) { return !(x > 0.f) ? 0u : x >= 4294967296.f ? 4294967295u : u32(x); }
ATTN_FN u64 cast_u64(float x) { return !(x > 0.f) ? 0ull : x >= 18446744073709551616.f ? ~0ull : u64(x); }
ATTN_FN i64 cast_i64(float x) {
  return !(x == x) ? 0 : x >= 9223372036854775808.f ? ~I64_MIN : x <= -9223372036854775808.f ? I64_MIN : i64(x);
}
ATTN_FN u8 cast_u8(float x) { return !(x > 0.f) ? u8(0) : x >= 255.f ? u8(255) : u8(u32(x)); }
#define ATTN_INT_CAST(NAME, TO) \
  template <class T>            \
  ATTN_FN TO NAME(T x) {        \
    return TO(x);               \
  }
ATTN_INT_CAST(cast_i32, int)
ATTN_INT_CAST(cast_u32, u32)
ATTN_INT_CAST(cast_u64, u64)
ATTN_INT_CAST(cast_i64, i64)
ATTN_INT_CAST(cast_u8, u8)
#undef ATTN_INT_CAST

}  // namespace lang
