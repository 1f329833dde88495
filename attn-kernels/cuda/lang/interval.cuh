// The tile classifier: abstract interpretation of a mask over a whole tile, on intervals and known bits (cf. LLVM's
// ConstantRange and KnownBits). An abstract value contains every value that the expression takes in the tile.
//
// An integer is an interval and a set of known bits, a bool is a Tristate, a float is Any (nothing is known). In most
// masks the known bits that bounds do not imply are compile-time constants, so the compiler removes what is unused.
//
// What is computed of integers of one type is made of attn-core/src/lang/interval/functions.rs. Here is what takes
// operands of any types, as the generated text has them: attn-core/src/lang/interval/operands.rs.
#pragma once

#include "lang/interval_fn.cuh"

// The visible keys of a row, from `begin` to before `end`.
struct Bounds {
  int begin, end;
};

namespace lang {
namespace interval {

struct Any {};

// ---- values ----

ATTN_FN Interval<int> of(int x) { return {x, x, 0u, 0u}; }
ATTN_FN Interval<u32> of(u32 x) { return {x, x, 0u, 0u}; }
ATTN_FN Interval<u8> of(u8 x) { return {x, x, 0u, 0u}; }
ATTN_FN Tristate of(bool x) { return x ? Tristate::True : Tristate::False; }
ATTN_FN Any of(float) { return {}; }
ATTN_FN Any of(u64) { return {}; }
ATTN_FN Any of(i64) { return {}; }
// A variant of an enum, by its discriminant.
template <class T>
ATTN_FN Interval<int> of(T x) {
  return of(int(x));
}
ATTN_FN Interval<int> coordinate(int min, int max) { return {min, max, 0u, 0u}; }

// Sets the bounds of a coordinate from an abstract value.
template <class A>
ATTN_FN void set_coordinate(int& min, int& max, A) {
  min = I32_MIN, max = 2147483647;
}
ATTN_FN void set_coordinate(int& min, int& max, Interval<int> a) { min = a.lo, max = a.hi; }

ATTN_FN Tristate tristate(Tristate x) { return x; }
template <class A>
ATTN_FN Tristate tristate(A) {
  return Tristate::Unknown;
}
ATTN_FN TileClass tile_class(Tristate attended) { return TileClass(int(attended)); }

// ---- functions of any operands ----

// Defines NAME by NAME##_of<OF>. Integers are brought to one type T; for any other operands the result is UNKNOWN.
#define ATTN_INTERVAL_JOINED(NAME, OF, UNKNOWN)         \
  template <class A, class B>                           \
  ATTN_FN auto NAME(A, B) {                             \
    return UNKNOWN;                                     \
  }                                                     \
  template <class A, class B>                           \
  ATTN_FN auto NAME(Interval<A> a, Interval<B> b) {     \
    using T = Join<A, B>;                               \
    return NAME##_of<OF>(convert<T>(a), convert<T>(b)); \
  }
#define ATTN_INTERVAL_BINARY(NAME) ATTN_INTERVAL_JOINED(NAME, T, Any{})
#define ATTN_INTERVAL_COMPARE(NAME) ATTN_INTERVAL_JOINED(NAME, T, Tristate::Unknown)
#define ATTN_INTERVAL_UNARY(NAME, OF, UNKNOWN) \
  template <class A>                           \
  ATTN_FN auto NAME(A) {                       \
    return UNKNOWN;                            \
  }                                            \
  template <class T>                           \
  ATTN_FN auto NAME(Interval<T> a) {           \
    return NAME##_of<OF>(a);                   \
  }
// Of a second operand that is no integer, only the type of the result is known.
#define ATTN_INTERVAL_BY(NAME)                              \
  template <class A, class B>                               \
  ATTN_FN Any NAME(A, B) {                                  \
    return {};                                              \
  }                                                         \
  template <class T, class B>                               \
  ATTN_FN Interval<T> NAME(Interval<T>, B) {                \
    return full<T>();                                       \
  }                                                         \
  template <class T, class S>                               \
  ATTN_FN Interval<T> NAME(Interval<T> a, Interval<S> by) { \
    return NAME##_of(a, by);                                \
  }
#define ATTN_INTERVAL_CAST(NAME, T)         \
  template <class A>                        \
  ATTN_FN Interval<T> NAME(A) {             \
    return full<T>();                       \
  }                                         \
  template <class A>                        \
  ATTN_FN Interval<T> NAME(Interval<A> a) { \
    return convert<T>(a);                   \
  }                                         \
  ATTN_FN Interval<T> NAME(Tristate a) { return cast_of<T>(a); }

ATTN_INTERVAL_BINARY(add)
ATTN_INTERVAL_BINARY(sub)
ATTN_INTERVAL_BINARY(mul)
ATTN_INTERVAL_BINARY(div)
ATTN_INTERVAL_BINARY(div_euclid)
ATTN_INTERVAL_BINARY(rem)
ATTN_INTERVAL_BINARY(rem_euclid)
ATTN_INTERVAL_BINARY(bit_and)
ATTN_INTERVAL_BINARY(bit_or)
ATTN_INTERVAL_BINARY(bit_xor)
ATTN_INTERVAL_BINARY(min)
ATTN_INTERVAL_BINARY(max)
ATTN_INTERVAL_BINARY(saturating_add)
ATTN_INTERVAL_BINARY(saturating_sub)
ATTN_INTERVAL_JOINED(abs_diff, Unsigned<T>, Any{})
ATTN_INTERVAL_COMPARE(lt)
ATTN_INTERVAL_COMPARE(le)
ATTN_INTERVAL_COMPARE(eq)
ATTN_INTERVAL_UNARY(neg, T, Any{})
ATTN_INTERVAL_UNARY(bit_not, T, Any{})
ATTN_INTERVAL_UNARY(abs, T, Any{})
ATTN_INTERVAL_UNARY(signum, T, Any{})
ATTN_INTERVAL_UNARY(count_ones, T, Any{})
ATTN_INTERVAL_UNARY(leading_zeros, T, Any{})
ATTN_INTERVAL_UNARY(trailing_zeros, T, Any{})
ATTN_INTERVAL_UNARY(unsigned_abs, Unsigned<T>, Any{})
ATTN_INTERVAL_UNARY(is_power_of_two, T, Tristate::Unknown)
ATTN_INTERVAL_BY(shl)
ATTN_INTERVAL_BY(shr)
ATTN_INTERVAL_BY(pow)
ATTN_INTERVAL_CAST(cast_i32, int)
ATTN_INTERVAL_CAST(cast_u32, u32)
ATTN_INTERVAL_CAST(cast_u8, u8)

template <class A, class B, class C>
ATTN_FN auto clamp(A x, B low, C high) {
  return min(max(x, low), high);
}

// ---- three-valued logic and selection ----

ATTN_FN Tristate bit_not(Tristate a) { return not_of(a); }
ATTN_FN Tristate bit_and(Tristate a, Tristate b) { return and_of(a, b); }
ATTN_FN Tristate bit_or(Tristate a, Tristate b) { return or_of(a, b); }
ATTN_FN Tristate bit_xor(Tristate a, Tristate b) { return xor_of(a, b); }
ATTN_FN Tristate eq(Tristate a, Tristate b) { return not_of(xor_of(a, b)); }
#define ATTN_TRISTATE_OF(NAME, RESULT) \
  template <class A, class B>          \
  ATTN_FN Tristate NAME(A a, B b) {    \
    return RESULT;                     \
  }
ATTN_TRISTATE_OF(both, and_of(tristate(a), tristate(b)))
ATTN_TRISTATE_OF(either, or_of(tristate(a), tristate(b)))
ATTN_TRISTATE_OF(gt, lt(b, a))
ATTN_TRISTATE_OF(ge, le(b, a))
ATTN_TRISTATE_OF(ne, not_of(eq(a, b)))
template <class C, class A, class B>
ATTN_FN Any select(C, A, B) {
  return {};
}
template <class C>
ATTN_FN Tristate select(C which, Tristate a, Tristate b) {
  return choice_of(tristate(which), a, b);
}
template <class C, class A, class B>
ATTN_FN auto select(C which, Interval<A> a, Interval<B> b) {
  using T = Join<A, B>;
  return select_of<T>(tristate(which), convert<T>(a), convert<T>(b));
}

// ---- the visible keys of a row as an interval ----

// The keys from `lo` to `hi`, inclusive. Ends outside of the range of int are open.
struct KeySpan {
  i64 lo, hi;
};
constexpr i64 OPEN = 1ll << 33;
ATTN_FN KeySpan keys_if(bool all) { return all ? KeySpan{-OPEN, OPEN} : KeySpan{OPEN, -OPEN}; }
ATTN_FN KeySpan up_to(i64 x) { return {-OPEN, x}; }
ATTN_FN KeySpan from(i64 x) { return {x, OPEN}; }
ATTN_FN KeySpan only(i64 x) { return {x, x}; }
ATTN_FN KeySpan meet(KeySpan a, KeySpan b) { return {lang::max(a.lo, b.lo), lang::min(a.hi, b.hi)}; }
// The union of two spans that are open on the same side.
ATTN_FN KeySpan join(KeySpan a, KeySpan b) { return {lang::min(a.lo, b.lo), lang::max(a.hi, b.hi)}; }
// The spans of x + by and of by - x.
ATTN_FN KeySpan shifted(KeySpan a, i64 by) { return {a.lo + by, a.hi + by}; }
ATTN_FN KeySpan mirrored(KeySpan a, i64 by) { return {by - a.hi, by - a.lo}; }
// The x with |x| <= a.hi.
ATTN_FN KeySpan within(KeySpan a) { return {-a.hi, a.hi}; }
// The x whose quotient by `by`, rounded towards zero, is in `a`. A quotient by 0 is 0.
ATTN_FN KeySpan dividends(KeySpan a, i64 by) {
  if (by == 0) return keys_if(a.lo <= 0 && a.hi >= 0);
  if (by < 0) a = mirrored(a, 0), by = -by;
  if (a.lo > a.hi) return keys_if(false);
  constexpr i64 FAR = 1ll << 31;
  i64 lo = a.lo > 0 ? lang::min(a.lo, FAR) * by : lang::max(a.lo, -FAR) * by - (by - 1);
  i64 hi = a.hi < 0 ? lang::max(a.hi, -FAR) * by : lang::min(a.hi, FAR) * by + (by - 1);
  return {a.lo < -FAR ? -OPEN : lo, a.hi > FAR ? OPEN : hi};
}
ATTN_FN Bounds bounds(KeySpan a) {
  constexpr i64 FIRST = -2147483648ll, LAST = 2147483647ll;
  // Compare before adding: for a widened int the compiler then knows the results.
  int begin = a.lo < FIRST ? int(FIRST) : a.lo > LAST ? int(LAST) : int(a.lo);
  int end = a.hi >= LAST ? int(LAST) : a.hi < FIRST ? int(FIRST) : int(a.hi) + 1;
  return {begin, end};
}

#undef ATTN_INTERVAL_JOINED
#undef ATTN_INTERVAL_BINARY
#undef ATTN_INTERVAL_UNARY
#undef ATTN_INTERVAL_BY
#undef ATTN_INTERVAL_COMPARE
#undef ATTN_INTERVAL_CAST
#undef ATTN_TRISTATE_OF

}  // namespace interval
}  // namespace lang
