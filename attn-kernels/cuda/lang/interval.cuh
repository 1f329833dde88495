// Masks over whole tiles: values of which only bounds are known. See attn-core/src/lang/range, which says the same in
// Rust, to the bit: a value here holds everything that an expression takes in a tile.
//
// An integer is an interval and a set of known bits, a bool is a Tri, a float is Any. Known bits beyond those that bounds tell are
// constants in most masks, so that the compiler drops what nobody asks for.
#pragma once

#include "lang/coordinates.cuh"
#include "lang/types.cuh"

// The keys of a row, from `begin` to before `end`.
struct Bounds {
  int begin, end;
};

namespace lang {
namespace range {

using i64 = long long;

struct Any {};

// All integers of T from `lo` to `hi` whose bits are as known.
template <class T>
struct Ints {
  T lo, hi;
  u32 known;  // beyond the bounds
  u32 value;  // 0 where not known
};

// All 32 bits, the sign extended.
struct Bits {
  u32 known, value;
};

template <class T>
constexpr i64 LEAST = IS_SIGNED<T> ? -2147483648ll : 0;
template <class T>
constexpr i64 MOST = IS_SIGNED<T> ? 2147483647ll : BITS<T> == 8 ? 255ll : 4294967295ll;
template <class T>
constexpr u32 MASK = BITS<T> == 8 ? 0xffu : 0xffffffffu;

ATTN_FN i64 least(i64 a, i64 b) { return b < a ? b : a; }
ATTN_FN i64 most(i64 a, i64 b) { return a < b ? b : a; }

// ---- making ----

template <class T>
ATTN_FN Ints<T> between(i64 lo, i64 hi) {
  return {T(lo), T(hi), 0u, 0u};
}
template <class T>
ATTN_FN Ints<T> full() {
  return between<T>(LEAST<T>, MOST<T>);
}
// What integers from `lo` to `hi` become in T: all wrap alike, or nothing is known.
template <class T>
ATTN_FN Ints<T> wrapped(i64 lo, i64 hi) {
  bool alike = (lo - LEAST<T>) >> BITS<T> == (hi - LEAST<T>) >> BITS<T>;
  return {alike ? T(lo) : T(LEAST<T>), alike ? T(hi) : T(MOST<T>), 0u, 0u};
}
template <class T>
ATTN_FN Ints<T> with_bits(Ints<T> a, u32 known, u32 value) {
  return {a.lo, a.hi, known, value & known};
}
template <class T, class S>
ATTN_FN Ints<T> convert(Ints<S> a) {
  Ints<T> result = wrapped<T>(a.lo, a.hi);
  return with_bits(result, a.known & MASK<T> & MASK<S>, a.value);
}
ATTN_FN Ints<int> of(int x) { return {x, x, 0u, 0u}; }
ATTN_FN Ints<u32> of(u32 x) { return {x, x, 0u, 0u}; }
ATTN_FN Ints<u8> of(u8 x) { return {x, x, 0u, 0u}; }
ATTN_FN Tri of(bool x) { return x ? Tri::True : Tri::False; }
ATTN_FN Any of(float) { return {}; }
ATTN_FN Any of(u64) { return {}; }
// A variant of an enum.
template <class T>
ATTN_FN Ints<int> of(T x) {
  return of(int(x));
}
ATTN_FN Ints<int> word(int min, int max) { return {min, max, 0u, 0u}; }

// The bounds of an index word.
template <class A>
ATTN_FN void set_word(int& min, int& max, A) {
  min = I32_MIN, max = 2147483647;
}
ATTN_FN void set_word(int& min, int& max, Ints<int> a) { min = a.lo, max = a.hi; }

// ---- bits ----

// All ones from the highest one on.
ATTN_FN u32 smear(u32 x) {
#ifdef ATTN_HOST
  return x == 0 ? 0u : 0xffffffffu >> __builtin_clz(x);
#else
  return x == 0 ? 0u : 0xffffffffu >> __clz(int(x));
#endif
}
ATTN_FN u32 ones(u32 x) {
#ifdef ATTN_HOST
  return u32(__builtin_popcount(x));
#else
  return u32(__popc(x));
#endif
}
// A mask of the ones at the low end.
ATTN_FN u32 low_ones(u32 x) { return (~x & (0u - ~x)) - 1u; }
template <class T>
ATTN_FN Bits bits(Ints<T> a) {
  u32 prefix = ~smear(u32(a.lo) ^ u32(a.hi));
  return {prefix | a.known, (u32(a.lo) & prefix) | (a.value & ~prefix)};
}
template <class T>
ATTN_FN Ints<T> from_bits(Bits b, i64 lo, i64 hi) {
  u32 known = b.known & MASK<T>, value = b.value & known;
  i64 low, high;
  if constexpr (IS_SIGNED<T>) {
    constexpr u32 SIGN = 0x80000000u;
    low = int(value | (~known & SIGN));
    high = int(value | (~known & ~SIGN));
  } else {
    low = value;
    high = value | (~known & MASK<T>);
  }
  return with_bits(between<T>(most(lo, low), least(hi, high)), known, value);
}

// ---- choices ----

ATTN_FN Tri known(bool is_true, bool is_false) { return is_true ? Tri::True : is_false ? Tri::False : Tri::Unknown; }
ATTN_FN Tri tri(Tri x) { return x; }
template <class A>
ATTN_FN Tri tri(A) {
  return Tri::Unknown;
}
ATTN_FN TileClass tile_class(Tri attended) { return TileClass(int(attended)); }
ATTN_FN Tri opposite(Tri a) { return Tri(2 - int(a)); }
template <class A, class B>
ATTN_FN Tri both(A a, B b) {
  int x = int(tri(a)), y = int(tri(b));
  return Tri(x < y ? x : y);
}
template <class A, class B>
ATTN_FN Tri either(A a, B b) {
  int x = int(tri(a)), y = int(tri(b));
  return Tri(x < y ? y : x);
}

// A function of two integers of one type; of anything else nothing is known.
#define ATTN_RANGE_BINARY(NAME)           \
  template <class A, class B>             \
  ATTN_FN Any NAME(A, B) {                \
    return {};                            \
  }                                       \
  template <class A, class B>             \
  ATTN_FN auto NAME(Ints<A> a, Ints<B> b) { \
    using T = Join<A, B>;                 \
    return NAME##_of<T>(convert<T>(a), convert<T>(b)); \
  }
#define ATTN_RANGE_UNARY(NAME) \
  template <class A>           \
  ATTN_FN Any NAME(A) {        \
    return {};                 \
  }
#define ATTN_RANGE_COMPARE(NAME)          \
  template <class A, class B>             \
  ATTN_FN Tri NAME(A, B) {                \
    return Tri::Unknown;                  \
  }                                       \
  template <class A, class B>             \
  ATTN_FN Tri NAME(Ints<A> a, Ints<B> b) { \
    using T = Join<A, B>;                 \
    return NAME##_of<T>(convert<T>(a), convert<T>(b)); \
  }

template <class T>
ATTN_FN Ints<T> join(Ints<T> a, Ints<T> b) {
  Bits x = bits(a), y = bits(b);
  u32 known = x.known & y.known & ~(x.value ^ y.value) & MASK<T>;
  return with_bits(between<T>(least(a.lo, b.lo), most(a.hi, b.hi)), known, x.value);
}
template <class C, class A, class B>
ATTN_FN Any select(C, A, B) {
  return {};
}
template <class C>
ATTN_FN Tri select(C c, Tri a, Tri b) {
  Tri which = tri(c);
  return which == Tri::True ? a : which == Tri::False ? b : a == b ? a : Tri::Unknown;
}
template <class C, class A, class B>
ATTN_FN auto select(C c, Ints<A> a, Ints<B> b) {
  using T = Join<A, B>;
  Ints<T> x = convert<T>(a), y = convert<T>(b);
  Tri which = tri(c);
  return which == Tri::True ? x : which == Tri::False ? y : join(x, y);
}

// ---- sums, products, bit operations ----

// The bits at the low end that are known of both.
struct LowBits {
  u32 known, x, y;
};
template <class T>
ATTN_FN LowBits low_bits(Ints<T> a, Ints<T> b) {
  Bits x = bits(a), y = bits(b);
  return {low_ones(x.known & y.known) & MASK<T>, x.value, y.value};
}
template <class T>
ATTN_FN u32 low_zeros(Ints<T> a) {
  Bits b = bits(a);
  return ones(low_ones(b.known & ~b.value));
}
template <class T>
ATTN_FN Ints<T> add_of(Ints<T> a, Ints<T> b) {
  LowBits low = low_bits(a, b);
  return with_bits(wrapped<T>(i64(a.lo) + b.lo, i64(a.hi) + b.hi), low.known, low.x + low.y);
}
ATTN_RANGE_BINARY(add)
template <class T>
ATTN_FN Ints<T> sub_of(Ints<T> a, Ints<T> b) {
  LowBits low = low_bits(a, b);
  return with_bits(wrapped<T>(i64(a.lo) - b.hi, i64(a.hi) - b.lo), low.known, low.x - low.y);
}
ATTN_RANGE_BINARY(sub)
template <class T>
ATTN_FN Ints<T> mul_of(Ints<T> a, Ints<T> b) {
  LowBits low = low_bits(a, b);
  u32 zeros = low_zeros(a) + low_zeros(b);
  zeros = (zeros >= 32 ? 0xffffffffu : (1u << zeros) - 1u) & MASK<T>;
  Ints<T> product;
  if constexpr (IS_SIGNED<T>) {
    i64 p = i64(a.lo) * b.lo, q = i64(a.lo) * b.hi, r = i64(a.hi) * b.lo, s = i64(a.hi) * b.hi;
    product = wrapped<T>(least(least(p, q), least(r, s)), most(most(p, q), most(r, s)));
  } else {
    u64 high = u64(a.hi) * b.hi;
    product = high >> 63 ? full<T>() : wrapped<T>(i64(u64(a.lo) * b.lo), i64(high));
  }
  return with_bits(product, low.known | zeros, (low.x * low.y) & low.known);
}
ATTN_RANGE_BINARY(mul)
ATTN_RANGE_UNARY(neg)
template <class T>
ATTN_FN Ints<T> neg(Ints<T> a) {
  return wrapped<T>(-i64(a.hi), -i64(a.lo));
}
ATTN_RANGE_UNARY(bit_not)
ATTN_FN Tri bit_not(Tri a) { return opposite(a); }
template <class T>
ATTN_FN Ints<T> bit_not(Ints<T> a) {
  return with_bits(Ints<T>{T(~a.hi), T(~a.lo), 0u, 0u}, a.known, ~a.value & MASK<T>);
}
template <class T>
ATTN_FN Ints<T> bit_and_of(Ints<T> a, Ints<T> b) {
  Bits x = bits(a), y = bits(b);
  u32 known = (x.known & y.known) | (x.known & ~x.value) | (y.known & ~y.value);
  i64 lo = a.lo >= 0 || b.lo >= 0 ? 0 : LEAST<T>;
  i64 hi = MOST<T>;
  if (a.lo >= 0) hi = a.hi;
  if (b.lo >= 0) hi = least(hi, b.hi);
  return from_bits<T>({known, x.value & y.value}, lo, hi);
}
ATTN_RANGE_BINARY(bit_and)
ATTN_FN Tri bit_and(Tri a, Tri b) { return both(a, b); }
template <class T>
ATTN_FN Ints<T> bit_or_of(Ints<T> a, Ints<T> b) {
  Bits x = bits(a), y = bits(b);
  u32 known = (x.known & y.known) | x.value | y.value;
  i64 lo = a.lo >= 0 && b.lo >= 0 ? most(a.lo, b.lo) : LEAST<T>;
  return from_bits<T>({known, x.value | y.value}, lo, MOST<T>);
}
ATTN_RANGE_BINARY(bit_or)
ATTN_FN Tri bit_or(Tri a, Tri b) { return either(a, b); }
template <class T>
ATTN_FN Ints<T> bit_xor_of(Ints<T> a, Ints<T> b) {
  Bits x = bits(a), y = bits(b);
  u32 known = x.known & y.known;
  return from_bits<T>({known, (x.value ^ y.value) & known}, LEAST<T>, MOST<T>);
}
ATTN_RANGE_BINARY(bit_xor)
ATTN_FN Tri bit_xor(Tri a, Tri b) {
  bool both_known = a != Tri::Unknown && b != Tri::Unknown;
  return known(both_known && a != b, both_known && a == b);
}

// ---- casts ----

template <class T, class A>
ATTN_FN Ints<T> cast(A) {
  return full<T>();
}
template <class T>
ATTN_FN Ints<T> cast_of(Tri a) {
  return between<T>(a == Tri::True, a != Tri::False);
}
template <class A>
ATTN_FN Ints<int> cast_i32(A) {
  return full<int>();
}
template <class A>
ATTN_FN Ints<int> cast_i32(Ints<A> a) {
  return convert<int>(a);
}
ATTN_FN Ints<int> cast_i32(Tri a) { return cast_of<int>(a); }
template <class A>
ATTN_FN Ints<u32> cast_u32(A) {
  return full<u32>();
}
template <class A>
ATTN_FN Ints<u32> cast_u32(Ints<A> a) {
  return convert<u32>(a);
}
ATTN_FN Ints<u32> cast_u32(Tri a) { return cast_of<u32>(a); }
template <class A>
ATTN_FN Ints<u8> cast_u8(A) {
  return full<u8>();
}
template <class A>
ATTN_FN Ints<u8> cast_u8(Ints<A> a) {
  return convert<u8>(a);
}
ATTN_FN Ints<u8> cast_u8(Tri a) { return cast_of<u8>(a); }

// ---- comparisons ----

template <class T>
ATTN_FN Tri lt_of(Ints<T> a, Ints<T> b) {
  return known(a.hi < b.lo, a.lo >= b.hi);
}
ATTN_RANGE_COMPARE(lt)
template <class T>
ATTN_FN Tri le_of(Ints<T> a, Ints<T> b) {
  return known(a.hi <= b.lo, a.lo > b.hi);
}
ATTN_RANGE_COMPARE(le)
template <class A, class B>
ATTN_FN Tri gt(A a, B b) {
  return lt(b, a);
}
template <class A, class B>
ATTN_FN Tri ge(A a, B b) {
  return le(b, a);
}
template <class T>
ATTN_FN Tri eq_of(Ints<T> a, Ints<T> b) {
  Bits x = bits(a), y = bits(b);
  bool differ = (((a.known & y.known) | (b.known & x.known)) & (x.value ^ y.value)) != 0;
  return known(a.lo == a.hi && b.lo == b.hi && a.lo == b.lo, a.hi < b.lo || b.hi < a.lo || differ);
}
ATTN_RANGE_COMPARE(eq)
ATTN_FN Tri eq(Tri a, Tri b) { return opposite(bit_xor(a, b)); }
template <class A, class B>
ATTN_FN Tri ne(A a, B b) {
  return opposite(eq(a, b));
}

// ---- quotients and remainders: a divisor that may be 0 leaves everything open ----

template <class T>
ATTN_FN bool spans_zero(Ints<T> b) {
  return b.lo <= 0 && b.hi >= 0;
}
// Of 32-bit operands, of which the divisor is not 0.
template <class T>
ATTN_FN i64 quotient(T a, T b) {
  if constexpr (IS_SIGNED<T>) {
    if (b == -1) return -i64(a);
  }
  return a / b;
}
template <class T>
ATTN_FN i64 quotient_euclid(T a, T b) {
  i64 q = quotient(a, b);
  if constexpr (IS_SIGNED<T>) {
    if (i64(a) - q * b < 0) q += b > 0 ? -1 : 1;
  }
  return q;
}
template <class T>
ATTN_FN Ints<T> div_of(Ints<T> a, Ints<T> b) {
  if (spans_zero(b)) return full<T>();
  i64 p = quotient(a.lo, b.lo), q = quotient(a.hi, b.lo);
  i64 lo = least(p, q), hi = most(p, q);
  if (b.lo != b.hi) {
    p = quotient(a.lo, b.hi), q = quotient(a.hi, b.hi);
    lo = least(lo, least(p, q)), hi = most(hi, most(p, q));
  }
  return wrapped<T>(lo, hi);
}
ATTN_RANGE_BINARY(div)
template <class T>
ATTN_FN Ints<T> div_euclid_of(Ints<T> a, Ints<T> b) {
  if (spans_zero(b)) return full<T>();
  i64 p = quotient_euclid(a.lo, b.lo), q = quotient_euclid(a.hi, b.lo);
  i64 lo = least(p, q), hi = most(p, q);
  if (b.lo != b.hi) {
    p = quotient_euclid(a.lo, b.hi), q = quotient_euclid(a.hi, b.hi);
    lo = least(lo, least(p, q)), hi = most(hi, most(p, q));
  }
  return wrapped<T>(lo, hi);
}
ATTN_RANGE_BINARY(div_euclid)

// A remainder of what is not negative, by a power of two, is the low bits.
template <class T>
ATTN_FN Ints<T> low_part(Ints<T> remainder, Ints<T> a, i64 low, i64 high) {
  bool power = low == high && (low & (low - 1)) == 0 && a.lo >= 0;
  u32 mask = power ? u32(low - 1) : 0u;
  return with_bits(remainder, a.known & mask, a.value & mask);
}
// A quotient of the divisor's magnitude, up to 2^31.
template <class T>
ATTN_FN i64 whole(T a, i64 by) {
  if constexpr (IS_SIGNED<T>) return by > 2147483647ll ? (i64(a) == -by ? -1 : 0) : a / int(by);
  return u32(a) / u32(by);
}
template <class T>
ATTN_FN Ints<T> rem_of(Ints<T> a, Ints<T> b) {
  if (spans_zero(b)) return full<T>();
  i64 low = b.lo > 0 ? i64(b.lo) : -i64(b.hi), high = b.lo > 0 ? i64(b.hi) : -i64(b.lo);
  if (low == high) {
    i64 q = whole(a.lo, low);
    if (q == whole(a.hi, low)) return between<T>(a.lo - q * low, a.hi - q * low);
  }
  if (a.lo > -low && a.hi < low) return a;
  i64 lo = a.lo >= 0 ? 0 : most(a.lo, 1 - high);
  i64 hi = a.hi <= 0 ? 0 : least(a.hi, high - 1);
  return low_part(between<T>(lo, hi), a, low, high);
}
ATTN_RANGE_BINARY(rem)
template <class T>
ATTN_FN i64 whole_below(T a, i64 by) {
  i64 q = whole(a, by);
  return q * by > i64(a) ? q - 1 : q;
}
template <class T>
ATTN_FN Ints<T> rem_euclid_of(Ints<T> a, Ints<T> b) {
  if (spans_zero(b)) return full<T>();
  i64 low = b.lo > 0 ? i64(b.lo) : -i64(b.hi), high = b.lo > 0 ? i64(b.hi) : -i64(b.lo);
  if (low == high) {
    i64 q = whole_below(a.lo, low);
    if (q == whole_below(a.hi, low)) return between<T>(a.lo - q * low, a.hi - q * low);
  }
  if (a.lo >= 0 && a.hi < low) return a;
  i64 hi = a.lo >= 0 ? least(a.hi, high - 1) : high - 1;
  return low_part(between<T>(0, hi), a, low, high);
}
ATTN_RANGE_BINARY(rem_euclid)

// ---- shifts, by a distance modulo the width ----

template <class A, class B>
ATTN_FN Any shl(A, B) {
  return {};
}
template <class T, class B>
ATTN_FN Ints<T> shl(Ints<T>, B) {
  return full<T>();
}
template <class T, class S>
ATTN_FN Ints<T> shl(Ints<T> a, Ints<S> by) {
  if (by.lo == by.hi) {
    u32 k = u32(by.lo) & (BITS<T> - 1);
    Bits b = bits(a);
    Ints<T> bounds = wrapped<T>(i64(u64(i64(a.lo)) << k), i64(u64(i64(a.hi)) << k));
    return from_bits<T>({b.known << k | ((1u << k) - 1u), b.value << k}, bounds.lo, bounds.hi);
  }
  if (i64(by.lo) < 0 || i64(by.hi) > BITS<T> - 1) return full<T>();
  u64 lo = u64(i64(a.lo)), hi = u64(i64(a.hi));
  i64 p = i64(lo << u32(by.lo)), q = i64(lo << u32(by.hi)), r = i64(hi << u32(by.lo)), s = i64(hi << u32(by.hi));
  return wrapped<T>(least(least(p, q), least(r, s)), most(most(p, q), most(r, s)));
}
template <class A, class B>
ATTN_FN Any shr(A, B) {
  return {};
}
template <class T, class B>
ATTN_FN Ints<T> shr(Ints<T>, B) {
  return full<T>();
}
template <class T, class S>
ATTN_FN Ints<T> shr(Ints<T> a, Ints<S> by) {
  if (by.lo == by.hi) {
    u32 k = u32(by.lo) & (BITS<T> - 1);
    Bits b = bits(a);
    if constexpr (IS_SIGNED<T>)
      b = {u32(int(b.known) >> k), u32(int(b.value) >> k)};
    else
      b = {b.known >> k | ~(0xffffffffu >> k), b.value >> k};
    return from_bits<T>(b, i64(a.lo) >> k, i64(a.hi) >> k);
  }
  if (i64(by.lo) < 0 || i64(by.hi) > BITS<T> - 1) return full<T>();
  i64 p = i64(a.lo) >> u32(by.lo), q = i64(a.lo) >> u32(by.hi), r = i64(a.hi) >> u32(by.lo), s = i64(a.hi) >> u32(by.hi);
  return between<T>(least(least(p, q), least(r, s)), most(most(p, q), most(r, s)));
}

// ---- methods ----

template <class T>
ATTN_FN Ints<T> min_of(Ints<T> a, Ints<T> b) {
  return between<T>(least(a.lo, b.lo), least(a.hi, b.hi));
}
ATTN_RANGE_BINARY(min)
template <class T>
ATTN_FN Ints<T> max_of(Ints<T> a, Ints<T> b) {
  return between<T>(most(a.lo, b.lo), most(a.hi, b.hi));
}
ATTN_RANGE_BINARY(max)
template <class A, class B, class C>
ATTN_FN auto clamp(A x, B low, C high) {
  return min(max(x, low), high);
}
// Bounds of |x|.
struct Magnitude {
  i64 lo, hi;
  ATTN_FN Magnitude(i64 from, i64 to)
      : lo(from >= 0 ? from : to <= 0 ? -to : 0), hi(from >= 0 ? to : to <= 0 ? -from : most(to, -from)) {}
};
ATTN_RANGE_UNARY(abs)
template <class T>
ATTN_FN Ints<T> abs(Ints<T> a) {
  Magnitude m(a.lo, a.hi);
  return wrapped<T>(m.lo, m.hi);
}
ATTN_RANGE_UNARY(unsigned_abs)
template <class T>
ATTN_FN Ints<Unsigned<T>> unsigned_abs(Ints<T> a) {
  Magnitude m(a.lo, a.hi);
  return between<Unsigned<T>>(m.lo, m.hi);
}
template <class T>
ATTN_FN Ints<Unsigned<T>> abs_diff_of(Ints<T> a, Ints<T> b) {
  Magnitude m(i64(a.lo) - b.hi, i64(a.hi) - b.lo);
  return between<Unsigned<T>>(m.lo, m.hi);
}
ATTN_RANGE_BINARY(abs_diff)
ATTN_RANGE_UNARY(signum)
template <class T>
ATTN_FN Ints<T> signum(Ints<T> a) {
  return between<T>(a.lo > 0 ? 1 : i64(a.lo) < 0 ? -1 : 0, a.hi > 0 ? 1 : i64(a.hi) < 0 ? -1 : 0);
}
template <class T>
ATTN_FN Ints<T> saturated(i64 lo, i64 hi) {
  return between<T>(least(most(lo, LEAST<T>), MOST<T>), least(most(hi, LEAST<T>), MOST<T>));
}
template <class T>
ATTN_FN Ints<T> saturating_add_of(Ints<T> a, Ints<T> b) {
  return saturated<T>(i64(a.lo) + b.lo, i64(a.hi) + b.hi);
}
ATTN_RANGE_BINARY(saturating_add)
template <class T>
ATTN_FN Ints<T> saturating_sub_of(Ints<T> a, Ints<T> b) {
  return saturated<T>(i64(a.lo) - b.hi, i64(a.hi) - b.lo);
}
ATTN_RANGE_BINARY(saturating_sub)
// base^n of what is positive, or one more than `limit` where it is beyond it.
ATTN_FN i64 power(i64 base, i64 n, i64 limit) {
  if (base <= 1) return base;
  i64 result = 1;
  for (int i = 0; i < 32 && i < n; ++i) {
    if (result > limit / base) return limit + 1;
    result *= base;
  }
  return result;
}
template <class A, class B>
ATTN_FN Any pow(A, B) {
  return {};
}
template <class T, class B>
ATTN_FN Ints<T> pow(Ints<T>, B) {
  return full<T>();
}
template <class T, class S>
ATTN_FN Ints<T> pow(Ints<T> a, Ints<S> n) {
  if (i64(a.lo) < 0 || i64(n.lo) < 0) return full<T>();
  i64 lo = a.lo == 0 ? 0 : power(a.lo, n.lo, MOST<T>), hi = power(most(a.hi, 1), n.hi, MOST<T>);
  return lo > MOST<T> || hi > MOST<T> ? full<T>() : between<T>(lo, hi);
}
// How many ones there are.
template <class T>
ATTN_FN Ints<u32> ones_of(Ints<T> a) {
  Bits b = bits(a);
  return between<u32>(ones(b.value & MASK<T>), ones((b.value | ~b.known) & MASK<T>));
}
ATTN_RANGE_UNARY(count_ones)
template <class T>
ATTN_FN Ints<u32> count_ones(Ints<T> a) {
  return ones_of(a);
}
template <class A>
ATTN_FN Tri is_power_of_two(A) {
  return Tri::Unknown;
}
template <class T>
ATTN_FN Tri is_power_of_two(Ints<T> a) {
  Ints<u32> count = ones_of(a);
  return known(count.lo == 1 && count.hi == 1, count.lo > 1 || count.hi == 0);
}
ATTN_RANGE_UNARY(leading_zeros)
template <class T>
ATTN_FN Ints<u32> leading_zeros(Ints<T> a) {
  if (i64(a.lo) < 0) return between<u32>(0, i64(a.hi) < 0 ? 0 : 32);
  u32 high = ones(smear(u32(a.hi))), low = ones(smear(u32(a.lo)));
  return between<u32>(i64(BITS<T>) - high, i64(BITS<T>) - low);
}
ATTN_RANGE_UNARY(trailing_zeros)
template <class T>
ATTN_FN Ints<u32> trailing_zeros(Ints<T> a) {
  Bits b = bits(a);
  u32 set = b.value & MASK<T>;
  i64 low = ones(low_ones(b.known & ~b.value & MASK<T>));
  i64 high = set == 0 ? BITS<T> : ones(low_ones(~set));
  return between<u32>(least(low, BITS<T>), least(high, BITS<T>));
}

// ---- the keys of a row: an interval ----

// All keys from `lo` to `hi`, inclusive; values beyond an int are open ends.
struct Span {
  i64 lo, hi;
};
constexpr i64 OPEN = 1ll << 33;
ATTN_FN Span keys_if(bool all) { return all ? Span{-OPEN, OPEN} : Span{OPEN, -OPEN}; }
ATTN_FN Span up_to(i64 x) { return {-OPEN, x}; }
ATTN_FN Span from(i64 x) { return {x, OPEN}; }
ATTN_FN Span only(i64 x) { return {x, x}; }
ATTN_FN Span meet(Span a, Span b) { return {most(a.lo, b.lo), least(a.hi, b.hi)}; }
// Of spans that are open on one side.
ATTN_FN Span hull(Span a, Span b) { return {least(a.lo, b.lo), most(a.hi, b.hi)}; }
// x + by, and by - x.
ATTN_FN Span shifted(Span a, i64 by) { return {a.lo + by, a.hi + by}; }
ATTN_FN Span mirrored(Span a, i64 by) { return {by - a.hi, by - a.lo}; }
// The x of |x| up to a.hi.
ATTN_FN Span within(Span a) { return {-a.hi, a.hi}; }
// The x whose quotient by `by`, towards zero, is in `a`. A quotient by 0 is 0.
ATTN_FN Span dividends(Span a, i64 by) {
  if (by == 0) return keys_if(a.lo <= 0 && a.hi >= 0);
  if (by < 0) a = mirrored(a, 0), by = -by;
  if (a.lo > a.hi) return keys_if(false);
  constexpr i64 FAR = 1ll << 31;
  i64 lo = a.lo > 0 ? least(a.lo, FAR) * by : most(a.lo, -FAR) * by - (by - 1);
  i64 hi = a.hi < 0 ? most(a.hi, -FAR) * by : least(a.hi, FAR) * by + (by - 1);
  return {a.lo < -FAR ? -OPEN : lo, a.hi > FAR ? OPEN : hi};
}
ATTN_FN Bounds bounds(Span a) {
  constexpr i64 FIRST = -2147483648ll, LAST = 2147483647ll;
  // Compared before anything is added: of a widened int the compiler then knows the answers.
  int begin = a.lo < FIRST ? int(FIRST) : a.lo > LAST ? int(LAST) : int(a.lo);
  int end = a.hi >= LAST ? int(LAST) : a.hi < FIRST ? int(FIRST) : int(a.hi) + 1;
  return {begin, end};
}

#undef ATTN_RANGE_BINARY
#undef ATTN_RANGE_UNARY
#undef ATTN_RANGE_COMPARE

}  // namespace range
}  // namespace lang
