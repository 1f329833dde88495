// The integer types that the tile classifier tracks: the trait IntType of attn-core/src/lang/interval/functions.rs, of
// which interval_fn.cuh is made.
#pragma once

#include "lang/coordinates.cuh"
#include "lang/int_fn.cuh"

namespace lang {
namespace interval {

template <class T>
constexpr i64 LEAST = IS_SIGNED<T> ? -2147483648ll : 0;
template <class T>
constexpr i64 MOST = IS_SIGNED<T>   ? 2147483647ll
                     : BITS<T> == 8 ? 255ll
                                    : 4294967295ll;
template <class T>
constexpr u32 MASK = BITS<T> == 8 ? 0xffu : 0xffffffffu;

template <class T>
ATTN_FN i64 to_i64(T x) {
  return x;
}
template <class T>
ATTN_FN T from_i64(i64 x) {
  return T(x);
}
// Divisions of 32 bits are much shorter than those of 64.
template <class T>
ATTN_FN i64 quotient(T a, T by) {
  if constexpr (IS_SIGNED<T>) {
    if (by == -1) return -i64(a);
  }
  return a / by;
}
template <class T>
ATTN_FN i64 quotient_by_magnitude(T a, i64 by) {
  if constexpr (IS_SIGNED<T>) return by > 2147483647ll ? (i64(a) == -by ? -1 : 0) : a / int(by);
  return u32(a) / u32(by);
}

}  // namespace interval
}  // namespace lang
