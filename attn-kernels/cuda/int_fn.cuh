// Methods of integers, under Rust's names.
#pragma once

#include "number_fn.cuh"

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

}  // namespace lang
