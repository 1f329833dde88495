// The tile classifier: abstract interpretation of a mask over a whole tile, on intervals and known bits (cf. LLVM's
// ConstantRange and KnownBits). An abstract value contains every value that the expression takes in the tile.
// attn-core/src/lang/interval is the same in Rust, bit for bit.
//
// An integer is an interval and a set of known bits, a bool is a Tristate, a float is Any (nothing is known). In most
// masks the known bits that bounds do not imply are compile-time constants, so the compiler removes what is unused.
#pragma once

#include "lang/coordinates.cuh"
#include "lang/types.cuh"

// The visible keys of a row, from `begin` to before `end`.
struct Bounds {
  int begin, end;
};

namespace lang {
namespace interval {

struct Any {};

// The integers of T from `lo` to `hi` that agree with the known bits.
template <class T>
struct Interval {
  T lo, hi;
  u32 known;  // mask of known bits, besides those that the bounds imply
  u32 value;  // their values; 0 where not known
};

// Known bits of the sign-extended 32-bit value, including those that the bounds imply.
struct KnownBits {
  u32 known, value;
};

template <class T>
constexpr i64 LEAST = IS_SIGNED<T> ? -2147483648ll : 0;
template <class T>
constexpr i64 MOST = IS_SIGNED<T>   ? 2147483647ll
                     : BITS<T> == 8 ? 255ll
                                    : 4294967295ll;
template <class T>
constexpr u32 MASK = BITS<T> == 8 ? 0xffu : 0xffffffffu;

ATTN_FN i64 least(i64 a, i64 b) { return b < a ? b : a; }
ATTN_FN i64 most(i64 a, i64 b) { return a < b ? b : a; }

// ---- construction ----

template <class T>
ATTN_FN Interval<T> between(i64 lo, i64 hi) {
  return {T(lo), T(hi), 0u, 0u};
}
template <class T>
ATTN_FN Interval<T> full() {
  return between<T>(LEAST<T>, MOST<T>);
}
// Wraps the integers from `lo` to `hi` to T. If they do not all wrap by the same multiple, nothing is known.
template <class T>
ATTN_FN Interval<T> wrapped(i64 lo, i64 hi) {
  bool alike = (lo - LEAST<T>) >> BITS<T> == (hi - LEAST<T>) >> BITS<T>;
  return {alike ? T(lo) : T(LEAST<T>), alike ? T(hi) : T(MOST<T>), 0u, 0u};
}
template <class T>
ATTN_FN Interval<T> with_bits(Interval<T> a, u32 known, u32 value) {
  return {a.lo, a.hi, known, value & known};
}
template <class T, class S>
ATTN_FN Interval<T> convert(Interval<S> a) {
  Interval<T> result = wrapped<T>(a.lo, a.hi);
  return with_bits(result, a.known & MASK<T> & MASK<S>, a.value);
}
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

// ---- bits ----

// Sets all bits below the highest set bit.
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
// The mask of the trailing ones.
ATTN_FN u32 low_ones(u32 x) { return (~x & (0u - ~x)) - 1u; }
template <class T>
ATTN_FN KnownBits bits(Interval<T> a) {
  u32 prefix = ~smear(u32(a.lo) ^ u32(a.hi));
  return {prefix | a.known, (u32(a.lo) & prefix) | (a.value & ~prefix)};
}
template <class T>
ATTN_FN Interval<T> from_bits(KnownBits b, i64 lo, i64 hi) {
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

// ---- three-valued logic and selection ----

ATTN_FN Tristate known(bool is_true, bool is_false) {
  return is_true ? Tristate::True : is_false ? Tristate::False : Tristate::Unknown;
}
ATTN_FN Tristate tristate(Tristate x) { return x; }
template <class A>
ATTN_FN Tristate tristate(A) {
  return Tristate::Unknown;
}
ATTN_FN TileClass tile_class(Tristate attended) { return TileClass(int(attended)); }
ATTN_FN Tristate opposite(Tristate a) { return Tristate(2 - int(a)); }
template <class A, class B>
ATTN_FN Tristate both(A a, B b) {
  int x = int(tristate(a)), y = int(tristate(b));
  return Tristate(x < y ? x : y);
}
template <class A, class B>
ATTN_FN Tristate either(A a, B b) {
  int x = int(tristate(a)), y = int(tristate(b));
  return Tristate(x < y ? y : x);
}

// Defines a function of two integers of one type by NAME##_of. For any other operands the result is unknown.
#define ATTN_INTERVAL_BINARY(NAME)                     \
  template <class A, class B>                          \
  ATTN_FN Any NAME(A, B) {                             \
    return {};                                         \
  }                                                    \
  template <class A, class B>                          \
  ATTN_FN auto NAME(Interval<A> a, Interval<B> b) {    \
    using T = Join<A, B>;                              \
    return NAME##_of<T>(convert<T>(a), convert<T>(b)); \
  }
#define ATTN_INTERVAL_UNARY(NAME) \
  template <class A>              \
  ATTN_FN Any NAME(A) {           \
    return {};                    \
  }
#define ATTN_INTERVAL_COMPARE(NAME)                     \
  template <class A, class B>                           \
  ATTN_FN Tristate NAME(A, B) {                         \
    return Tristate::Unknown;                           \
  }                                                     \
  template <class A, class B>                           \
  ATTN_FN Tristate NAME(Interval<A> a, Interval<B> b) { \
    using T = Join<A, B>;                               \
    return NAME##_of<T>(convert<T>(a), convert<T>(b));  \
  }

template <class T>
ATTN_FN Interval<T> join(Interval<T> a, Interval<T> b) {
  KnownBits x = bits(a), y = bits(b);
  u32 known = x.known & y.known & ~(x.value ^ y.value) & MASK<T>;
  return with_bits(between<T>(least(a.lo, b.lo), most(a.hi, b.hi)), known, x.value);
}
template <class C, class A, class B>
ATTN_FN Any select(C, A, B) {
  return {};
}
template <class C>
ATTN_FN Tristate select(C c, Tristate a, Tristate b) {
  Tristate which = tristate(c);
  return which == Tristate::True ? a : which == Tristate::False ? b : a == b ? a : Tristate::Unknown;
}
template <class C, class A, class B>
ATTN_FN auto select(C c, Interval<A> a, Interval<B> b) {
  using T = Join<A, B>;
  Interval<T> x = convert<T>(a), y = convert<T>(b);
  Tristate which = tristate(c);
  return which == Tristate::True ? x : which == Tristate::False ? y : join(x, y);
}

// ---- sums, products, bit operations ----

// The trailing bits that are known of both operands.
struct LowBits {
  u32 known, x, y;
};
template <class T>
ATTN_FN LowBits low_bits(Interval<T> a, Interval<T> b) {
  KnownBits x = bits(a), y = bits(b);
  return {low_ones(x.known & y.known) & MASK<T>, x.value, y.value};
}
template <class T>
ATTN_FN u32 low_zeros(Interval<T> a) {
  KnownBits b = bits(a);
  return ones(low_ones(b.known & ~b.value));
}
template <class T>
ATTN_FN Interval<T> add_of(Interval<T> a, Interval<T> b) {
  LowBits low = low_bits(a, b);
  return with_bits(wrapped<T>(i64(a.lo) + b.lo, i64(a.hi) + b.hi), low.known, low.x + low.y);
}
ATTN_INTERVAL_BINARY(add)
template <class T>
ATTN_FN Interval<T> sub_of(Interval<T> a, Interval<T> b) {
  LowBits low = low_bits(a, b);
  return with_bits(wrapped<T>(i64(a.lo) - b.hi, i64(a.hi) - b.lo), low.known, low.x - low.y);
}
ATTN_INTERVAL_BINARY(sub)
template <class T>
ATTN_FN Interval<T> mul_of(Interval<T> a, Interval<T> b) {
  LowBits low = low_bits(a, b);
  u32 zeros = low_zeros(a) + low_zeros(b);
  zeros = (zeros >= 32 ? 0xffffffffu : (1u << zeros) - 1u) & MASK<T>;
  Interval<T> product;
  if constexpr (IS_SIGNED<T>) {
    i64 p = i64(a.lo) * b.lo, q = i64(a.lo) * b.hi, r = i64(a.hi) * b.lo, s = i64(a.hi) * b.hi;
    product = wrapped<T>(least(least(p, q), least(r, s)), most(most(p, q), most(r, s)));
  } else {
    u64 high = u64(a.hi) * b.hi;
    product = high >> 63 ? full<T>() : wrapped<T>(i64(u64(a.lo) * b.lo), i64(high));
  }
  return with_bits(product, low.known | zeros, (low.x * low.y) & low.known);
}
ATTN_INTERVAL_BINARY(mul)
ATTN_INTERVAL_UNARY(neg)
template <class T>
ATTN_FN Interval<T> neg(Interval<T> a) {
  return wrapped<T>(-i64(a.hi), -i64(a.lo));
}
ATTN_INTERVAL_UNARY(bit_not)
ATTN_FN Tristate bit_not(Tristate a) { return opposite(a); }
template <class T>
ATTN_FN Interval<T> bit_not(Interval<T> a) {
  return with_bits(Interval<T>{T(~a.hi), T(~a.lo), 0u, 0u}, a.known, ~a.value & MASK<T>);
}
template <class T>
ATTN_FN Interval<T> bit_and_of(Interval<T> a, Interval<T> b) {
  KnownBits x = bits(a), y = bits(b);
  u32 known = (x.known & y.known) | (x.known & ~x.value) | (y.known & ~y.value);
  i64 lo = a.lo >= 0 || b.lo >= 0 ? 0 : LEAST<T>;
  i64 hi = MOST<T>;
  if (a.lo >= 0) hi = a.hi;
  if (b.lo >= 0) hi = least(hi, b.hi);
  return from_bits<T>({known, x.value & y.value}, lo, hi);
}
ATTN_INTERVAL_BINARY(bit_and)
ATTN_FN Tristate bit_and(Tristate a, Tristate b) { return both(a, b); }
template <class T>
ATTN_FN Interval<T> bit_or_of(Interval<T> a, Interval<T> b) {
  KnownBits x = bits(a), y = bits(b);
  u32 known = (x.known & y.known) | x.value | y.value;
  i64 lo = a.lo >= 0 && b.lo >= 0 ? most(a.lo, b.lo) : LEAST<T>;
  return from_bits<T>({known, x.value | y.value}, lo, MOST<T>);
}
ATTN_INTERVAL_BINARY(bit_or)
ATTN_FN Tristate bit_or(Tristate a, Tristate b) { return either(a, b); }
template <class T>
ATTN_FN Interval<T> bit_xor_of(Interval<T> a, Interval<T> b) {
  KnownBits x = bits(a), y = bits(b);
  u32 known = x.known & y.known;
  return from_bits<T>({known, (x.value ^ y.value) & known}, LEAST<T>, MOST<T>);
}
ATTN_INTERVAL_BINARY(bit_xor)
ATTN_FN Tristate bit_xor(Tristate a, Tristate b) {
  bool both_known = a != Tristate::Unknown && b != Tristate::Unknown;
  return known(both_known && a != b, both_known && a == b);
}

// ---- casts ----

template <class T, class A>
ATTN_FN Interval<T> cast(A) {
  return full<T>();
}
template <class T>
ATTN_FN Interval<T> cast_of(Tristate a) {
  return between<T>(a == Tristate::True, a != Tristate::False);
}
template <class A>
ATTN_FN Interval<int> cast_i32(A) {
  return full<int>();
}
template <class A>
ATTN_FN Interval<int> cast_i32(Interval<A> a) {
  return convert<int>(a);
}
ATTN_FN Interval<int> cast_i32(Tristate a) { return cast_of<int>(a); }
template <class A>
ATTN_FN Interval<u32> cast_u32(A) {
  return full<u32>();
}
template <class A>
ATTN_FN Interval<u32> cast_u32(Interval<A> a) {
  return convert<u32>(a);
}
ATTN_FN Interval<u32> cast_u32(Tristate a) { return cast_of<u32>(a); }
template <class A>
ATTN_FN Interval<u8> cast_u8(A) {
  return full<u8>();
}
template <class A>
ATTN_FN Interval<u8> cast_u8(Interval<A> a) {
  return convert<u8>(a);
}
ATTN_FN Interval<u8> cast_u8(Tristate a) { return cast_of<u8>(a); }

// ---- comparisons ----

template <class T>
ATTN_FN Tristate lt_of(Interval<T> a, Interval<T> b) {
  return known(a.hi < b.lo, a.lo >= b.hi);
}
ATTN_INTERVAL_COMPARE(lt)
template <class T>
ATTN_FN Tristate le_of(Interval<T> a, Interval<T> b) {
  return known(a.hi <= b.lo, a.lo > b.hi);
}
ATTN_INTERVAL_COMPARE(le)
template <class A, class B>
ATTN_FN Tristate gt(A a, B b) {
  return lt(b, a);
}
template <class A, class B>
ATTN_FN Tristate ge(A a, B b) {
  return le(b, a);
}
template <class T>
ATTN_FN Tristate eq_of(Interval<T> a, Interval<T> b) {
  KnownBits x = bits(a), y = bits(b);
  bool differ = (((a.known & y.known) | (b.known & x.known)) & (x.value ^ y.value)) != 0;
  return known(a.lo == a.hi && b.lo == b.hi && a.lo == b.lo, a.hi < b.lo || b.hi < a.lo || differ);
}
ATTN_INTERVAL_COMPARE(eq)
ATTN_FN Tristate eq(Tristate a, Tristate b) { return opposite(bit_xor(a, b)); }
template <class A, class B>
ATTN_FN Tristate ne(A a, B b) {
  return opposite(eq(a, b));
}

// ---- quotients and remainders: with a divisor that may be 0 nothing is known ----

template <class T>
ATTN_FN bool spans_zero(Interval<T> b) {
  return b.lo <= 0 && b.hi >= 0;
}
// The quotient of 32-bit operands. The divisor is not 0.
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
ATTN_FN Interval<T> div_of(Interval<T> a, Interval<T> b) {
  if (spans_zero(b)) return full<T>();
  i64 p = quotient(a.lo, b.lo), q = quotient(a.hi, b.lo);
  i64 lo = least(p, q), hi = most(p, q);
  if (b.lo != b.hi) {
    p = quotient(a.lo, b.hi), q = quotient(a.hi, b.hi);
    lo = least(lo, least(p, q)), hi = most(hi, most(p, q));
  }
  return wrapped<T>(lo, hi);
}
ATTN_INTERVAL_BINARY(div)
template <class T>
ATTN_FN Interval<T> div_euclid_of(Interval<T> a, Interval<T> b) {
  if (spans_zero(b)) return full<T>();
  i64 p = quotient_euclid(a.lo, b.lo), q = quotient_euclid(a.hi, b.lo);
  i64 lo = least(p, q), hi = most(p, q);
  if (b.lo != b.hi) {
    p = quotient_euclid(a.lo, b.hi), q = quotient_euclid(a.hi, b.hi);
    lo = least(lo, least(p, q)), hi = most(hi, most(p, q));
  }
  return wrapped<T>(lo, hi);
}
ATTN_INTERVAL_BINARY(div_euclid)

// The remainder of a non-negative integer by a power of two is its low bits.
template <class T>
ATTN_FN Interval<T> low_part(Interval<T> remainder, Interval<T> a, i64 low, i64 high) {
  bool power = low == high && (low & (low - 1)) == 0 && a.lo >= 0;
  u32 mask = power ? u32(low - 1) : 0u;
  return with_bits(remainder, a.known & mask, a.value & mask);
}
// The quotient by the divisor's magnitude `by`, which is at most 2^31.
template <class T>
ATTN_FN i64 whole(T a, i64 by) {
  if constexpr (IS_SIGNED<T>) return by > 2147483647ll ? (i64(a) == -by ? -1 : 0) : a / int(by);
  return u32(a) / u32(by);
}
template <class T>
ATTN_FN Interval<T> rem_of(Interval<T> a, Interval<T> b) {
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
ATTN_INTERVAL_BINARY(rem)
template <class T>
ATTN_FN i64 whole_below(T a, i64 by) {
  i64 q = whole(a, by);
  return q * by > i64(a) ? q - 1 : q;
}
template <class T>
ATTN_FN Interval<T> rem_euclid_of(Interval<T> a, Interval<T> b) {
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
ATTN_INTERVAL_BINARY(rem_euclid)

// ---- shifts, by a distance modulo the width ----

template <class A, class B>
ATTN_FN Any shl(A, B) {
  return {};
}
template <class T, class B>
ATTN_FN Interval<T> shl(Interval<T>, B) {
  return full<T>();
}
template <class T, class S>
ATTN_FN Interval<T> shl(Interval<T> a, Interval<S> by) {
  if (by.lo == by.hi) {
    u32 k = u32(by.lo) & (BITS<T> - 1);
    KnownBits b = bits(a);
    Interval<T> bounds = wrapped<T>(i64(u64(i64(a.lo)) << k), i64(u64(i64(a.hi)) << k));
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
ATTN_FN Interval<T> shr(Interval<T>, B) {
  return full<T>();
}
template <class T, class S>
ATTN_FN Interval<T> shr(Interval<T> a, Interval<S> by) {
  if (by.lo == by.hi) {
    u32 k = u32(by.lo) & (BITS<T> - 1);
    KnownBits b = bits(a);
    if constexpr (IS_SIGNED<T>)
      b = {u32(int(b.known) >> k), u32(int(b.value) >> k)};
    else
      b = {b.known >> k | ~(0xffffffffu >> k), b.value >> k};
    return from_bits<T>(b, i64(a.lo) >> k, i64(a.hi) >> k);
  }
  if (i64(by.lo) < 0 || i64(by.hi) > BITS<T> - 1) return full<T>();
  i64 p = i64(a.lo) >> u32(by.lo), q = i64(a.lo) >> u32(by.hi);
  i64 r = i64(a.hi) >> u32(by.lo), s = i64(a.hi) >> u32(by.hi);
  return between<T>(least(least(p, q), least(r, s)), most(most(p, q), most(r, s)));
}

// ---- methods ----

template <class T>
ATTN_FN Interval<T> min_of(Interval<T> a, Interval<T> b) {
  return between<T>(least(a.lo, b.lo), least(a.hi, b.hi));
}
ATTN_INTERVAL_BINARY(min)
template <class T>
ATTN_FN Interval<T> max_of(Interval<T> a, Interval<T> b) {
  return between<T>(most(a.lo, b.lo), most(a.hi, b.hi));
}
ATTN_INTERVAL_BINARY(max)
template <class A, class B, class C>
ATTN_FN auto clamp(A x, B low, C high) {
  return min(max(x, low), high);
}
// Bounds of |x|.
struct Magnitude {
  i64 lo, hi;
  ATTN_FN Magnitude(i64 from, i64 to)
      : lo(from >= 0 ? from
           : to <= 0 ? -to
                     : 0),
        hi(from >= 0 ? to
           : to <= 0 ? -from
                     : most(to, -from)) {}
};
ATTN_INTERVAL_UNARY(abs)
template <class T>
ATTN_FN Interval<T> abs(Interval<T> a) {
  Magnitude m(a.lo, a.hi);
  return wrapped<T>(m.lo, m.hi);
}
ATTN_INTERVAL_UNARY(unsigned_abs)
template <class T>
ATTN_FN Interval<Unsigned<T>> unsigned_abs(Interval<T> a) {
  Magnitude m(a.lo, a.hi);
  return between<Unsigned<T>>(m.lo, m.hi);
}
template <class T>
ATTN_FN Interval<Unsigned<T>> abs_diff_of(Interval<T> a, Interval<T> b) {
  Magnitude m(i64(a.lo) - b.hi, i64(a.hi) - b.lo);
  return between<Unsigned<T>>(m.lo, m.hi);
}
ATTN_INTERVAL_BINARY(abs_diff)
ATTN_INTERVAL_UNARY(signum)
template <class T>
ATTN_FN Interval<T> signum(Interval<T> a) {
  return between<T>(a.lo > 0 ? 1 : i64(a.lo) < 0 ? -1 : 0, a.hi > 0 ? 1 : i64(a.hi) < 0 ? -1 : 0);
}
template <class T>
ATTN_FN Interval<T> saturated(i64 lo, i64 hi) {
  return between<T>(least(most(lo, LEAST<T>), MOST<T>), least(most(hi, LEAST<T>), MOST<T>));
}
template <class T>
ATTN_FN Interval<T> saturating_add_of(Interval<T> a, Interval<T> b) {
  return saturated<T>(i64(a.lo) + b.lo, i64(a.hi) + b.hi);
}
ATTN_INTERVAL_BINARY(saturating_add)
template <class T>
ATTN_FN Interval<T> saturating_sub_of(Interval<T> a, Interval<T> b) {
  return saturated<T>(i64(a.lo) - b.hi, i64(a.hi) - b.lo);
}
ATTN_INTERVAL_BINARY(saturating_sub)
// base^n of a positive base, or `limit` + 1 if it is larger than `limit`.
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
ATTN_FN Interval<T> pow(Interval<T>, B) {
  return full<T>();
}
template <class T, class S>
ATTN_FN Interval<T> pow(Interval<T> a, Interval<S> n) {
  if (i64(a.lo) < 0 || i64(n.lo) < 0) return full<T>();
  i64 lo = a.lo == 0 ? 0 : power(a.lo, n.lo, MOST<T>), hi = power(most(a.hi, 1), n.hi, MOST<T>);
  return lo > MOST<T> || hi > MOST<T> ? full<T>() : between<T>(lo, hi);
}
// The number of set bits.
template <class T>
ATTN_FN Interval<u32> ones_of(Interval<T> a) {
  KnownBits b = bits(a);
  return between<u32>(ones(b.value & MASK<T>), ones((b.value | ~b.known) & MASK<T>));
}
ATTN_INTERVAL_UNARY(count_ones)
template <class T>
ATTN_FN Interval<u32> count_ones(Interval<T> a) {
  return ones_of(a);
}
template <class A>
ATTN_FN Tristate is_power_of_two(A) {
  return Tristate::Unknown;
}
template <class T>
ATTN_FN Tristate is_power_of_two(Interval<T> a) {
  Interval<u32> count = ones_of(a);
  return known(count.lo == 1 && count.hi == 1, count.lo > 1 || count.hi == 0);
}
ATTN_INTERVAL_UNARY(leading_zeros)
template <class T>
ATTN_FN Interval<u32> leading_zeros(Interval<T> a) {
  if (i64(a.lo) < 0) return between<u32>(0, i64(a.hi) < 0 ? 0 : 32);
  u32 high = ones(smear(u32(a.hi))), low = ones(smear(u32(a.lo)));
  return between<u32>(i64(BITS<T>) - high, i64(BITS<T>) - low);
}
ATTN_INTERVAL_UNARY(trailing_zeros)
template <class T>
ATTN_FN Interval<u32> trailing_zeros(Interval<T> a) {
  KnownBits b = bits(a);
  u32 set = b.value & MASK<T>;
  i64 low = ones(low_ones(b.known & ~b.value & MASK<T>));
  i64 high = set == 0 ? BITS<T> : ones(low_ones(~set));
  return between<u32>(least(low, BITS<T>), least(high, BITS<T>));
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
ATTN_FN KeySpan meet(KeySpan a, KeySpan b) { return {most(a.lo, b.lo), least(a.hi, b.hi)}; }
// The union of two spans that are open on the same side.
ATTN_FN KeySpan join(KeySpan a, KeySpan b) { return {least(a.lo, b.lo), most(a.hi, b.hi)}; }
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
  i64 lo = a.lo > 0 ? least(a.lo, FAR) * by : most(a.lo, -FAR) * by - (by - 1);
  i64 hi = a.hi < 0 ? most(a.hi, -FAR) * by : least(a.hi, FAR) * by + (by - 1);
  return {a.lo < -FAR ? -OPEN : lo, a.hi > FAR ? OPEN : hi};
}
ATTN_FN Bounds bounds(KeySpan a) {
  constexpr i64 FIRST = -2147483648ll, LAST = 2147483647ll;
  // Compare before adding: for a widened int the compiler then knows the results.
  int begin = a.lo < FIRST ? int(FIRST) : a.lo > LAST ? int(LAST) : int(a.lo);
  int end = a.hi >= LAST ? int(LAST) : a.hi < FIRST ? int(FIRST) : int(a.hi) + 1;
  return {begin, end};
}

#undef ATTN_INTERVAL_BINARY
#undef ATTN_INTERVAL_UNARY
#undef ATTN_INTERVAL_COMPARE

}  // namespace interval
}  // namespace lang
