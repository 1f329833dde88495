// The integer methods of Rust under the same names: wrapping and saturating arithmetic, bit counts, rotations.
#pragma once

#include "lang/number_fn.cuh"

namespace lang {

template <class T>
ATTN_FN T pow(T x, u32 n) {
  Wide<T> result = 1, square = Wide<T>(x);
  for (; n != 0; n /= 2) {
    if (n & 1) result *= square;
    square *= square;
  }
  return T(result);
}
// All integers here wrap.
#define ATTN_WRAPPING(NAME, OF) \
  template <class... A>         \
  ATTN_FN auto NAME(A... a) {   \
    return OF(a...);            \
  }
ATTN_WRAPPING(wrapping_add, add)
ATTN_WRAPPING(wrapping_sub, sub)
ATTN_WRAPPING(wrapping_mul, mul)
ATTN_WRAPPING(wrapping_div, div)
ATTN_WRAPPING(wrapping_rem, rem)
ATTN_WRAPPING(wrapping_pow, pow)
ATTN_WRAPPING(wrapping_abs, abs)
ATTN_WRAPPING(wrapping_neg, neg)
ATTN_WRAPPING(wrapping_shl, shl)
ATTN_WRAPPING(wrapping_shr, shr)
#undef ATTN_WRAPPING

template <class A, class B>
ATTN_FN auto saturating_add(A a, B b) {
  using T = Join<A, B>;
  T sum = add(a, b);
  if constexpr (IS_SIGNED<T>)  // overflow: the operands agree in sign, the sum does not
    return ((a ^ sum) & (b ^ sum)) < 0 ? (T(a) < 0 ? LEAST<T> : T(~LEAST<T>)) : sum;
  else
    return sum < T(a) ? T(~T(0)) : sum;
}
template <class A, class B>
ATTN_FN auto saturating_sub(A a, B b) {
  using T = Join<A, B>;
  T difference = sub(a, b);
  if constexpr (IS_SIGNED<T>)
    return ((a ^ b) & (a ^ difference)) < 0 ? (T(a) < 0 ? LEAST<T> : T(~LEAST<T>)) : difference;
  else
    return T(b) > T(a) ? T(0) : difference;
}
// The upper word of a product.
ATTN_FN u64 mul_high(u64 a, u64 b) {
#ifdef ATTN_HOST
  return u64((unsigned __int128)a * b >> 64);
#else
  return __umul64hi(a, b);
#endif
}
ATTN_FN u64 saturating_product(u64 a, u64 b) { return mul_high(a, b) != 0 ? ~0ull : a * b; }
template <class A, class B>
ATTN_FN auto saturating_mul(A a, B b) {
  using T = Join<A, B>;
  if constexpr (IS_SIGNED<T> && BITS<T> < 64) {
    const i64 product = i64(a) * b;
    return product > 2147483647 ? 2147483647 : product < I32_MIN ? I32_MIN : int(product);
  } else if constexpr (IS_SIGNED<T>) {  // the product's magnitude, of at most 2^63 where it is negative
    const u64 product = saturating_product(u64(abs(T(a))), u64(abs(T(b))));
    const bool negative = (T(a) < 0) != (T(b) < 0);
    return product > u64(~LEAST<T>) ? (negative ? LEAST<T> : T(~LEAST<T>)) : negative ? -T(product) : T(product);
  } else if constexpr (BITS<T> < 64) {
    const u64 product = u64(a) * u64(b);
    return product > u64(T(~T(0))) ? T(~T(0)) : T(product);
  } else {
    return T(saturating_product(a, b));
  }
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
  if constexpr (BITS<T> <= 32)
    return u32(__popc(u32(Unsigned<T>(a))));
  else
    return u32(__popcll(u64(a)));
#endif
}
template <class T>
ATTN_FN u32 leading_zeros(T a) {
  u64 bits = u64(Unsigned<T>(a));
#ifdef ATTN_HOST
  return bits == 0 ? BITS<T> : u32(__builtin_clzll(bits)) - (64 - BITS<T>);
#else
  if constexpr (BITS<T> <= 32)
    return u32(__clz(int(bits))) - (32 - BITS<T>);
  else
    return u32(__clzll(bits));
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
ATTN_FN u32 count_zeros(T a) {
  return BITS<T> - count_ones(a);
}
template <class T>
ATTN_FN u32 leading_ones(T a) {
  return leading_zeros(bit_not(a));
}
template <class T>
ATTN_FN u32 trailing_ones(T a) {
  return trailing_zeros(bit_not(a));
}
template <class T>
ATTN_FN T reverse_bits(T a) {
  u64 bits = u64(Unsigned<T>(a));
#ifdef ATTN_HOST
  u64 reversed = 0;
  for (int i = 0; i < 64; ++i) reversed |= (bits >> i & 1) << (63 - i);
#else
  u64 reversed = __brevll(bits);
#endif
  return T(Unsigned<T>(reversed >> (64 - BITS<T>)));
}
template <class T>
ATTN_FN bool is_positive(T a) {
  return a > 0;
}
template <class T>
ATTN_FN bool is_negative(T a) {
  return a < 0;
}
// Unsigned integers only, as in Rust.
template <class A, class B>
ATTN_FN auto div_ceil(A a, B b) {
  using T = Join<A, B>;
  return T(div(a, b) + (rem(a, b) != 0 ? 1 : 0));
}
template <class A, class B>
ATTN_FN auto next_multiple_of(A a, B b) {
  using T = Join<A, B>;
  const T over = rem(a, b);
  return over == 0 ? T(a) : add(T(a), sub(T(b), over));
}
template <class T>
ATTN_FN T next_power_of_two(T a) {
  return a <= 1 ? T(1) : T((Wide<T>(T(~T(0))) >> leading_zeros(T(a - 1))) + 1);
}
template <class T>
ATTN_FN bool is_power_of_two(T a) {
  return count_ones(a) == 1;
}
// The square root, rounded down; 0 for a negative number, where Rust panics.
template <class T>
ATTN_FN T isqrt(T a) {
  if (a <= 0) return 0;
  constexpr u64 MOST = 0xffffffff;
  const u64 x = u64(a);
  const u64 root = u64(ATTN_MATH(sqrt)(double(x)));
  const u64 near = root < MOST ? root : MOST;  // off by at most one
  if (near * near > x) return T(near - 1);
  return T(near < MOST && (near + 1) * (near + 1) <= x ? near + 1 : near);
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

}  // namespace lang
