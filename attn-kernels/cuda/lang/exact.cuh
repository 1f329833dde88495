// Products and quotients of KV formats, which have the same bits on every device: a compiler may fuse an operator with
// a sum, and these it may not.
#pragma once

#include "lang/number_fn.cuh"

namespace lang {

template <class A, class B>
ATTN_FN auto mul_rn(A a, B b) {
  if constexpr (IS_FLOAT<Join<A, B>>) {
#ifdef ATTN_HOST
    return a * b;
#else
    return __fmul_rn(a, b);
#endif
  } else {
    return mul(a, b);
  }
}
template <class A, class B>
ATTN_FN auto div_rn(A a, B b) {
  if constexpr (IS_FLOAT<Join<A, B>>) {
#ifdef ATTN_HOST
    return a / b;
#else
    return __fdiv_rn(a, b);
#endif
  } else {
    return div(a, b);
  }
}

// Kernels are compiled for the scalars of a format, so a division by one needs no prepared divisor.
#define ATTN_BY_SCALAR(NAME, OF)                       \
  template <class A>                                   \
  ATTN_FN auto NAME(A a, int by) { return OF(a, by); } \
  template <class A>                                   \
  ATTN_FN auto NAME(A a, u32 by) { return OF(a, by); } \
  template <class A>                                    \
  ATTN_FN auto NAME(A a, float by) { return OF(a, by); }
ATTN_BY_SCALAR(div_by, div)
ATTN_BY_SCALAR(rem_by, rem)
ATTN_BY_SCALAR(div_euclid_by, div_euclid)
ATTN_BY_SCALAR(rem_euclid_by, rem_euclid)
#undef ATTN_BY_SCALAR

}  // namespace lang
