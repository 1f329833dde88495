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
template <class A>
ATTN_FN auto div_by(A a, int by) { return div(a, by); }
template <class A>
ATTN_FN auto div_by(A a, u32 by) { return div(a, by); }
template <class A>
ATTN_FN auto div_by(A a, float by) { return div(a, by); }
template <class A>
ATTN_FN auto rem_by(A a, int by) { return rem(a, by); }
template <class A>
ATTN_FN auto rem_by(A a, u32 by) { return rem(a, by); }
template <class A>
ATTN_FN auto rem_by(A a, float by) { return rem(a, by); }
template <class A>
ATTN_FN auto div_euclid_by(A a, int by) { return div_euclid(a, by); }
template <class A>
ATTN_FN auto div_euclid_by(A a, u32 by) { return div_euclid(a, by); }
template <class A>
ATTN_FN auto div_euclid_by(A a, float by) { return div_euclid(a, by); }
template <class A>
ATTN_FN auto rem_euclid_by(A a, int by) { return rem_euclid(a, by); }
template <class A>
ATTN_FN auto rem_euclid_by(A a, u32 by) { return rem_euclid(a, by); }
template <class A>
ATTN_FN auto rem_euclid_by(A a, float by) { return rem_euclid(a, by); }

}  // namespace lang
