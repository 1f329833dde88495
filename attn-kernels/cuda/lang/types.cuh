// The language's types: tuples, arrays, number types, and the common type of two operands.
#pragma once

#include "lang/choose.cuh"
#include "lang/math.cuh"

#ifdef ATTN_HOST
#define ATTN_UNROLL
#else
#define ATTN_UNROLL _Pragma("unroll")
#endif

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

// A Rust array. The generator has proven that every index is in bounds. Arrays of up to 16 elements are accessed by
// comparing the index with every element's, so that they stay in registers: a run-time index would force them into
// local memory.
template <class T, int N>
struct Array {
  T x[N];
  ATTN_FN T operator[](int i) const {
    if (N > 16) return x[i];
    T result = x[0];
    ATTN_UNROLL
    for (int k = 1; k < N; ++k)
      if (k == i) result = x[k];
    return result;
  }
  ATTN_FN void set(int i, T value) {
    if (N > 16) {
      x[i] = value;
    } else {
      ATTN_UNROLL
      for (int k = 0; k < N; ++k)
        if (k == i) x[k] = value;
    }
  }
};

namespace lang {

using u8 = unsigned char;

constexpr int I32_MIN = -2147483647 - 1;
constexpr i64 I64_MIN = -9223372036854775807ll - 1;
constexpr float F32_INFINITY = __builtin_bit_cast(float, 0x7f800000);
constexpr float F32_NAN = __builtin_bit_cast(float, 0x7fc00000);

// The common type of two operands. Rust has checked that they agree, so a different type is that of an int literal, or
// of one that does not fit an int beside 64 bits.
template <class A, class B>
constexpr auto common_type() {
  if constexpr (SAME<B, A> || SAME<B, int> || (SAME<B, u32> && sizeof(A) == 8))
    return A();
  else if constexpr (SAME<A, int> || (SAME<A, u32> && sizeof(B) == 8))
    return B();
}
template <class A, class B>
using Join = decltype(common_type<A, B>());

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
constexpr bool IS_FLOAT = SAME<T, float>;
template <class T>
constexpr bool IS_BOOL = SAME<T, bool>;
template <class T>
constexpr bool IS_SIGNED = T(-1) < T(0);
template <class T>
constexpr int BITS = sizeof(T) * 8;

// The unsigned type of the same width, and one at least as wide as unsigned int to compute in.
template <class T>
using Unsigned = Choose<SAME<T, int>, u32, Choose<SAME<T, i64>, u64, T>>;
template <class T>
using Wide = Choose<sizeof(T) == 8, u64, u32>;

// The least value of a signed type.
template <class T>
constexpr T LEAST = T(Unsigned<T>(1) << (BITS<T> - 1));

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

// ---- arrays ----

template <class T, class... Items>
ATTN_FN Array<T, sizeof...(Items)> array_of(Items... items) {
  return {{T(items)...}};
}
template <class T, class... Items>
ATTN_FN Array<T, 1 + sizeof...(Items)> array(T first, Items... items) {
  return {{first, T(items)...}};
}
template <int N, class T>
ATTN_FN Array<T, N> repeat(T item) {
  Array<T, N> result;
  ATTN_UNROLL
  for (int k = 0; k < N; ++k) result.x[k] = item;
  return result;
}

}  // namespace lang
