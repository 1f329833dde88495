// The methods that f32 and integers of Rust share, under the same names.
#pragma once

#include "lang/float_fn.cuh"
#include "lang/operators.cuh"

namespace lang {

template <class T>
ATTN_FN T abs(T x) {
  if constexpr (IS_FLOAT<T>)
    return ATTN_MATH(fabsf)(x);
  else
    return x < 0 ? neg(x) : x;
}
#define ATTN_EXTREMUM(NAME, OF_FLOATS, OTHER_WINS) \
  template <class A, class B>                      \
  ATTN_FN auto NAME(A a, B b) {                    \
    using T = Join<A, B>;                          \
    if constexpr (IS_FLOAT<T>)                     \
      return ATTN_MATH(OF_FLOATS)(a, b);           \
    else                                           \
      return OTHER_WINS ? T(b) : T(a);             \
  }
ATTN_EXTREMUM(min, fminf, T(b) < T(a))
ATTN_EXTREMUM(max, fmaxf, T(a) < T(b))
#undef ATTN_EXTREMUM

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

}  // namespace lang
