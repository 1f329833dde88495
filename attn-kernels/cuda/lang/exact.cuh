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

}  // namespace lang
