// What the tile classifier knows of integers of 64 bits, of cells of a cycle and of powers of two, beside interval.cuh:
// only variants that use it have it in their text. On the host: attn-core/src/lang/interval/operands.rs.
#pragma once

#include "lang/wide_fn.cuh"

namespace lang {
namespace interval {

// T is u64 or i64.
template <class T>
struct Wide {
  wide_fn::Wide of;
};

template <class T>
ATTN_FN Wide<T> wide_of(i64 lo, i64 hi) {
  return {wide_fn::wide(lo, hi, !IS_SIGNED<T>)};
}
// A constant or a literal.
ATTN_FN Wide<i64> wide(i64 x) { return wide_of<i64>(x, x); }
ATTN_FN Wide<u64> wide(u64 x) {
  return x >> 63 ? Wide<u64>{wide_fn::unknown_wide(true)} : wide_of<u64>(i64(x), i64(x));
}

template <class T>
ATTN_FN Wide<T> to_wide(Wide<T> a) {
  return a;
}
template <class T>
ATTN_FN Wide<T> to_wide(Interval<int> a) {
  return wide_of<T>(a.lo, a.hi);
}

// Two operands of 64 bits, one of which may be an untyped literal.
#define ATTN_WIDE_PAIR(NAME, RESULT, OF)            \
  template <class T>                                \
  ATTN_FN RESULT NAME(Wide<T> a, Wide<T> b) {       \
    return {OF(a.of, b.of)};                        \
  }                                                 \
  template <class T>                                \
  ATTN_FN RESULT NAME(Wide<T> a, Interval<int> b) { \
    return NAME(a, to_wide<T>(b));                  \
  }                                                 \
  template <class T>                                \
  ATTN_FN RESULT NAME(Interval<int> a, Wide<T> b) { \
    return NAME(to_wide<T>(a), b);                  \
  }
ATTN_WIDE_PAIR(add, Wide<T>, wide_fn::wide_add)
ATTN_WIDE_PAIR(sub, Wide<T>, wide_fn::wide_sub)
ATTN_WIDE_PAIR(mul, Wide<T>, wide_fn::wide_mul)
ATTN_WIDE_PAIR(div, Wide<T>, wide_fn::wide_div)
ATTN_WIDE_PAIR(rem, Wide<T>, wide_fn::wide_rem)
ATTN_WIDE_PAIR(div_euclid, Wide<T>, wide_fn::wide_div_euclid)
ATTN_WIDE_PAIR(rem_euclid, Wide<T>, wide_fn::wide_rem_euclid)
ATTN_WIDE_PAIR(min, Wide<T>, wide_fn::wide_min)
ATTN_WIDE_PAIR(max, Wide<T>, wide_fn::wide_max)
ATTN_WIDE_PAIR(bit_and, Wide<T>, wide_fn::wide_and)
ATTN_WIDE_PAIR(lt, Tristate, wide_fn::wide_lt)
ATTN_WIDE_PAIR(le, Tristate, wide_fn::wide_le)
ATTN_WIDE_PAIR(eq, Tristate, wide_fn::wide_eq)
#undef ATTN_WIDE_PAIR

template <class T>
ATTN_FN Wide<T> neg(Wide<T> a) {
  return {wide_fn::wide_neg(a.of)};
}
template <class T>
ATTN_FN Wide<T> abs(Wide<T> a) {
  return {wide_fn::wide_abs(a.of)};
}
template <class T, class S>
ATTN_FN Wide<T> shl(Wide<T> a, Interval<S> by) {
  return {by.lo == by.hi ? wide_fn::wide_shl(a.of, to_i64(by.lo)) : wide_fn::unknown_wide(!IS_SIGNED<T>)};
}
template <class T, class S>
ATTN_FN Wide<T> shr(Wide<T> a, Interval<S> by) {
  return {by.lo == by.hi ? wide_fn::wide_shr(a.of, to_i64(by.lo)) : wide_fn::unknown_wide(!IS_SIGNED<T>)};
}
template <class C, class T>
ATTN_FN Wide<T> select(C which, Wide<T> a, Wide<T> b) {
  const Tristate is = tristate(which);
  return is == Tristate::True ? a : is == Tristate::False ? b : Wide<T>{wide_fn::wide_join(a.of, b.of)};
}
template <class C, class T>
ATTN_FN Wide<T> select(C which, Wide<T> a, Interval<int> b) {
  return select(which, a, to_wide<T>(b));
}
template <class C, class T>
ATTN_FN Wide<T> select(C which, Interval<int> a, Wide<T> b) {
  return select(which, to_wide<T>(a), b);
}

#define ATTN_WIDE_CAST(NAME, T)                                                                       \
  template <class A>                                                                                  \
  ATTN_FN Wide<T> NAME(A) {                                                                           \
    return {wide_fn::unknown_wide(!IS_SIGNED<T>)};                                                    \
  }                                                                                                   \
  template <class A>                                                                                  \
  ATTN_FN Wide<T> NAME(Interval<A> a) {                                                               \
    return wide_of<T>(to_i64(a.lo), to_i64(a.hi));                                                    \
  }                                                                                                   \
  template <class A>                                                                                  \
  ATTN_FN Wide<T> NAME(Wide<A> a) {                                                                   \
    return a.of.known ? wide_of<T>(a.of.lo, a.of.hi) : Wide<T>{wide_fn::unknown_wide(!IS_SIGNED<T>)}; \
  }                                                                                                   \
  ATTN_FN Wide<T> NAME(Tristate a) { return wide_of<T>(a == Tristate::True, a != Tristate::False); }
ATTN_WIDE_CAST(cast_u64, u64)
ATTN_WIDE_CAST(cast_i64, i64)
#undef ATTN_WIDE_CAST

#define ATTN_NARROW_CAST(NAME, T)                                 \
  template <class A>                                              \
  ATTN_FN Interval<T> NAME(Wide<A> a) {                           \
    return a.of.known ? wrapped<T>(a.of.lo, a.of.hi) : full<T>(); \
  }
ATTN_NARROW_CAST(cast_i32, int)
ATTN_NARROW_CAST(cast_u32, u32)
ATTN_NARROW_CAST(cast_u8, u8)
#undef ATTN_NARROW_CAST

// ---- x & (x - 1) ----

template <class A>
ATTN_FN Any clear_lowest(A) {
  return {};
}
template <class T>
ATTN_FN Interval<T> clear_lowest(Interval<T> a) {
  const i64 lo = to_i64(a.lo), hi = to_i64(a.hi);
  const wide_fn::Wide few = wide_fn::cleared(lo, hi);
  if (few.known) return between<T>(few.lo, few.hi);
  const Interval<T> plain = bit_and_of<T>(a, sub_of<T>(a, between<T>(1, 1)));
  const i64 from = to_i64(plain.lo);
  const i64 least = wide_fn::has_no_power(lo, hi) && from < 1 ? i64(1) : from;
  return between<T>(least, lang::max(to_i64(plain.hi), least));
}

// ---- x.rem_euclid(m) / size == y, and of both sides ----

ATTN_FN i64 number(Interval<int> a) { return a.lo == a.hi ? a.lo : 0; }
template <class A>
ATTN_FN i64 number(A) {
  return 0;
}

template <class X, class M, class S, class Y>
ATTN_FN Tristate eq_cell(X x, M m, S size, Y y) {
  return eq(div(rem_euclid(x, m), size), y);
}
template <class M, class S>
ATTN_FN Tristate eq_cell(Interval<int> x, M m, S size, Interval<int> y) {
  const Tristate plain = eq(div(rem_euclid(x, m), size), y);
  if (plain != Tristate::Unknown) return plain;
  const bool differ = wide_fn::cells_differ(to_wide<i64>(x).of, to_wide<i64>(y).of, number(m), number(size));
  return differ ? Tristate::False : Tristate::Unknown;
}
template <class X, class Y, class M, class S>
ATTN_FN Tristate eq_cells(X x, Y y, M m, S size) {
  return eq(div(rem_euclid(x, m), size), div(rem_euclid(y, m), size));
}
template <class M, class S>
ATTN_FN Tristate eq_cells(Interval<int> x, Interval<int> y, M m, S size) {
  const Tristate plain = eq(div(rem_euclid(x, m), size), div(rem_euclid(y, m), size));
  if (plain != Tristate::Unknown) return plain;
  const bool differ = wide_fn::cells_are_apart(to_wide<i64>(x).of, to_wide<i64>(y).of, number(m), number(size));
  return differ ? Tristate::False : Tristate::Unknown;
}

}  // namespace interval
}  // namespace lang
