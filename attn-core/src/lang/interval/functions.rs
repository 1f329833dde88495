//! The functions of the abstract interpreter on intervals of one type, for the host and for kernels. What takes any
//! operands is in [`super::operands`], and in `attn-kernels/cuda/lang/interval.cuh`, which call them by these names.
//!
//! They are one file because they become one header of kernels, in this order: construction, known bits, three-valued
//! logic, sums and products, comparisons, quotients and remainders, shifts, methods. A function `x_of` is the abstract
//! `x`: its result contains `x` of every choice of operands. Bounds are computed in i64, where nothing of 32 bits
//! overflows, and `wrapped` brings them back. Text within `device` is text of kernels, comments included.

pub use device::Interval;
pub(crate) use device::*;

/// Abstract interpretation on intervals and known bits: the functions of operands that are integers of one type, and of
/// bools. An abstract value contains every value that the expression takes in the tile.
#[allow(unreachable_pub)] // re-exported within the crate
#[attn_macros::device_mod(namespace = "lang::interval", include = "lang/int_type.cuh")]
mod device {
    use crate::lang::Tristate;

    /// The integer types that are tracked: i32, u32 and u8.
    pub trait IntType: Copy + Ord {
        /// The least value.
        const LEAST: i64;
        /// The greatest value.
        const MOST: i64;
        /// The type's bits within 32.
        const MASK: u32;
        /// The width.
        const BITS: u32;
        /// Whether there are negative values.
        const IS_SIGNED: bool;
        /// The value.
        fn to_i64(self) -> i64;
        /// The value modulo the width.
        fn from_i64(x: i64) -> Self;
        /// The quotient, which may be 2^31. The divisor is not 0.
        fn quotient(self, by: Self) -> i64;
        /// The quotient by the magnitude of a divisor, from 1 to 2^32.
        fn quotient_by_magnitude(self, by: i64) -> i64;
    }

    /// The integers of T from `lo` to `hi` that agree with the known bits.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Interval<T> {
        /// The least.
        pub lo: T,
        /// The greatest.
        pub hi: T,
        /// The mask of known bits, besides those that the bounds imply.
        pub known: u32,
        /// Their values; 0 where not known.
        pub value: u32,
    }

    /// Known bits of the sign-extended 32-bit value, including those that the bounds imply.
    #[derive(Clone, Copy)]
    pub struct KnownBits {
        pub known: u32,
        pub value: u32,
    }

    // ---- construction ----

    #[inline]
    pub fn between<T: IntType>(lo: i64, hi: i64) -> Interval<T> {
        Interval { lo: T::from_i64(lo), hi: T::from_i64(hi), known: 0, value: 0 }
    }

    #[inline]
    pub fn full<T: IntType>() -> Interval<T> {
        between::<T>(T::LEAST, T::MOST)
    }

    /// Wraps the integers from `lo` to `hi` to T. If they do not all wrap by the same multiple, nothing is known.
    #[inline]
    pub fn wrapped<T: IntType>(lo: i64, hi: i64) -> Interval<T> {
        let alike = lo.wrapping_sub(T::LEAST) >> T::BITS == hi.wrapping_sub(T::LEAST) >> T::BITS;
        between::<T>(if alike { lo } else { T::LEAST }, if alike { hi } else { T::MOST })
    }

    #[inline]
    pub fn with_bits<T: IntType>(a: Interval<T>, known: u32, value: u32) -> Interval<T> {
        Interval { known, value: value & known, ..a }
    }

    #[inline]
    pub fn convert<T: IntType, S: IntType>(a: Interval<S>) -> Interval<T> {
        let result = wrapped::<T>(a.lo.to_i64(), a.hi.to_i64());
        with_bits(result, a.known & T::MASK & S::MASK, a.value)
    }

    /// The integers whose bounds and bits are these.
    pub fn from_bits<T: IntType>(b: KnownBits, lo: i64, hi: i64) -> Interval<T> {
        let known = b.known & T::MASK;
        let value = b.value & known;
        let unknown = !known & T::MASK;
        let sign = if T::IS_SIGNED { 0x8000_0000u32 } else { 0u32 };
        let low = value | (unknown & sign);
        let high = value | (unknown & !sign);
        let least = if T::IS_SIGNED { i64::from(low as i32) } else { i64::from(low) };
        let most = if T::IS_SIGNED { i64::from(high as i32) } else { i64::from(high) };
        with_bits(between::<T>(lo.max(least), hi.min(most)), known, value)
    }

    // ---- bits ----

    /// Sets all bits below the highest set bit.
    #[inline]
    pub fn smear(x: u32) -> u32 {
        if x == 0 { 0 } else { u32::MAX >> x.leading_zeros() }
    }

    /// The mask of the trailing ones.
    #[inline]
    pub fn low_ones(x: u32) -> u32 {
        let zeros = !x;
        (zeros & 0u32.wrapping_sub(zeros)).wrapping_sub(1)
    }

    #[inline]
    pub fn bits<T: IntType>(a: Interval<T>) -> KnownBits {
        let lo = a.lo.to_i64() as u32;
        let prefix = !smear(lo ^ a.hi.to_i64() as u32);
        KnownBits { known: prefix | a.known, value: (lo & prefix) | (a.value & !prefix) }
    }

    // ---- three-valued logic ----

    #[inline]
    pub fn known(is_true: bool, is_false: bool) -> Tristate {
        if is_true {
            Tristate::True
        } else if is_false {
            Tristate::False
        } else {
            Tristate::Unknown
        }
    }

    #[inline]
    pub fn not_of(a: Tristate) -> Tristate {
        known(a == Tristate::False, a == Tristate::True)
    }

    #[inline]
    pub fn and_of(a: Tristate, b: Tristate) -> Tristate {
        if (b as i32) < (a as i32) { b } else { a }
    }

    #[inline]
    pub fn or_of(a: Tristate, b: Tristate) -> Tristate {
        if (b as i32) < (a as i32) { a } else { b }
    }

    #[inline]
    pub fn xor_of(a: Tristate, b: Tristate) -> Tristate {
        let both = a != Tristate::Unknown && b != Tristate::Unknown;
        known(both && a != b, both && a == b)
    }

    #[inline]
    pub fn choice_of(which: Tristate, a: Tristate, b: Tristate) -> Tristate {
        if which == Tristate::True || a == b {
            a
        } else if which == Tristate::False {
            b
        } else {
            Tristate::Unknown
        }
    }

    #[inline]
    pub fn join_of<T: IntType>(a: Interval<T>, b: Interval<T>) -> Interval<T> {
        let (x, y) = (bits(a), bits(b));
        let alike = x.known & y.known & !(x.value ^ y.value) & T::MASK;
        let joined = between::<T>(a.lo.to_i64().min(b.lo.to_i64()), a.hi.to_i64().max(b.hi.to_i64()));
        with_bits(joined, alike, x.value)
    }

    #[inline]
    pub fn select_of<T: IntType>(which: Tristate, a: Interval<T>, b: Interval<T>) -> Interval<T> {
        if which == Tristate::True {
            a
        } else if which == Tristate::False {
            b
        } else {
            join_of(a, b)
        }
    }

    // ---- sums, products, bit operations ----

    /// The trailing bits that are known of both operands.
    #[derive(Clone, Copy)]
    pub struct LowBits {
        pub known: u32,
        pub x: u32,
        pub y: u32,
    }

    #[inline]
    pub fn low_bits<T: IntType>(a: Interval<T>, b: Interval<T>) -> LowBits {
        let (x, y) = (bits(a), bits(b));
        LowBits { known: low_ones(x.known & y.known) & T::MASK, x: x.value, y: y.value }
    }

    /// The number of known trailing zeros.
    #[inline]
    pub fn low_zeros<T: IntType>(a: Interval<T>) -> u32 {
        let b = bits(a);
        low_ones(b.known & !b.value).count_ones()
    }

    #[inline]
    pub fn add_of<T: IntType>(a: Interval<T>, b: Interval<T>) -> Interval<T> {
        let low = low_bits(a, b);
        let sum = wrapped::<T>(a.lo.to_i64() + b.lo.to_i64(), a.hi.to_i64() + b.hi.to_i64());
        with_bits(sum, low.known, low.x.wrapping_add(low.y))
    }

    #[inline]
    pub fn sub_of<T: IntType>(a: Interval<T>, b: Interval<T>) -> Interval<T> {
        let low = low_bits(a, b);
        let difference = wrapped::<T>(a.lo.to_i64() - b.hi.to_i64(), a.hi.to_i64() - b.lo.to_i64());
        with_bits(difference, low.known, low.x.wrapping_sub(low.y))
    }

    /// Wraps the integers between the least and the greatest of four.
    #[inline]
    pub fn wrapped_corners<T: IntType>(p: i64, q: i64, r: i64, s: i64) -> Interval<T> {
        wrapped::<T>(p.min(q).min(r.min(s)), p.max(q).max(r.max(s)))
    }

    /// The bounds of products. Those of unsigned numbers may have 64 bits.
    #[inline]
    pub fn product<T: IntType>(a: Interval<T>, b: Interval<T>) -> Interval<T> {
        if T::IS_SIGNED {
            let p = a.lo.to_i64().wrapping_mul(b.lo.to_i64());
            let q = a.lo.to_i64().wrapping_mul(b.hi.to_i64());
            let r = a.hi.to_i64().wrapping_mul(b.lo.to_i64());
            let s = a.hi.to_i64().wrapping_mul(b.hi.to_i64());
            return wrapped_corners::<T>(p, q, r, s);
        }
        let low = (a.lo.to_i64() as u64).wrapping_mul(b.lo.to_i64() as u64);
        let high = (a.hi.to_i64() as u64).wrapping_mul(b.hi.to_i64() as u64);
        if high >> 63 != 0 {
            return full::<T>();
        }
        wrapped::<T>(low as i64, high as i64)
    }

    #[inline]
    pub fn mul_of<T: IntType>(a: Interval<T>, b: Interval<T>) -> Interval<T> {
        let low = low_bits(a, b);
        let count = low_zeros(a) + low_zeros(b);
        let zeros = if count >= 32 { u32::MAX } else { (1u32 << count) - 1 };
        with_bits(product(a, b), low.known | (zeros & T::MASK), low.x.wrapping_mul(low.y) & low.known)
    }

    #[inline]
    pub fn neg_of<T: IntType>(a: Interval<T>) -> Interval<T> {
        wrapped::<T>(-a.hi.to_i64(), -a.lo.to_i64())
    }

    #[inline]
    pub fn bit_not_of<T: IntType>(a: Interval<T>) -> Interval<T> {
        // the complement of x is LEAST + MOST - x
        let sum = T::LEAST + T::MOST;
        let flipped = between::<T>(sum - a.hi.to_i64(), sum - a.lo.to_i64());
        with_bits(flipped, a.known, !a.value & T::MASK)
    }

    pub fn bit_and_of<T: IntType>(a: Interval<T>, b: Interval<T>) -> Interval<T> {
        let (x, y) = (bits(a), bits(b));
        let known = (x.known & y.known) | (x.known & !x.value) | (y.known & !y.value);
        let (some, others) = (a.lo.to_i64() >= 0, b.lo.to_i64() >= 0);
        // a non-negative operand bounds the result
        let lo = if some || others { 0i64 } else { T::LEAST };
        let most = if some { a.hi.to_i64() } else { T::MOST };
        let hi = if others { most.min(b.hi.to_i64()) } else { most };
        from_bits::<T>(KnownBits { known, value: x.value & y.value }, lo, hi)
    }

    pub fn bit_or_of<T: IntType>(a: Interval<T>, b: Interval<T>) -> Interval<T> {
        let (x, y) = (bits(a), bits(b));
        let known = (x.known & y.known) | x.value | y.value;
        let least = a.lo.to_i64().max(b.lo.to_i64());
        let lo = if a.lo.to_i64() >= 0 && b.lo.to_i64() >= 0 { least } else { T::LEAST };
        from_bits::<T>(KnownBits { known, value: x.value | y.value }, lo, T::MOST)
    }

    pub fn bit_xor_of<T: IntType>(a: Interval<T>, b: Interval<T>) -> Interval<T> {
        let (x, y) = (bits(a), bits(b));
        let known = x.known & y.known;
        from_bits::<T>(KnownBits { known, value: (x.value ^ y.value) & known }, T::LEAST, T::MOST)
    }

    pub fn cast_of<T: IntType>(a: Tristate) -> Interval<T> {
        between::<T>(i64::from(a == Tristate::True), i64::from(a != Tristate::False))
    }

    // ---- comparisons ----

    #[inline]
    pub fn lt_of<T: IntType>(a: Interval<T>, b: Interval<T>) -> Tristate {
        known(a.hi < b.lo, a.lo >= b.hi)
    }

    #[inline]
    pub fn le_of<T: IntType>(a: Interval<T>, b: Interval<T>) -> Tristate {
        known(a.hi <= b.lo, a.lo > b.hi)
    }

    #[inline]
    pub fn eq_of<T: IntType>(a: Interval<T>, b: Interval<T>) -> Tristate {
        let (x, y) = (bits(a), bits(b));
        let differ = ((a.known & y.known) | (b.known & x.known)) & (x.value ^ y.value) != 0;
        known(a.lo == a.hi && b.lo == b.hi && a.lo == b.lo, a.hi < b.lo || b.hi < a.lo || differ)
    }

    // ---- quotients and remainders: with a divisor that may be 0 nothing is known ----

    pub fn spans_zero<T: IntType>(b: Interval<T>) -> bool {
        b.lo.to_i64() <= 0 && b.hi.to_i64() >= 0
    }

    /// Quotients are monotone in both operands, if the divisor has one sign: the extremes are at the corners.
    pub fn div_of<T: IntType>(a: Interval<T>, b: Interval<T>) -> Interval<T> {
        if spans_zero(b) {
            return full::<T>();
        }
        let (p, q) = (a.lo.quotient(b.lo), a.hi.quotient(b.lo));
        if b.lo == b.hi {
            // `i32::MIN / -1` wraps
            return wrapped::<T>(p.min(q), p.max(q));
        }
        wrapped_corners::<T>(p, q, a.lo.quotient(b.hi), a.hi.quotient(b.hi))
    }

    pub fn quotient_euclid<T: IntType>(a: T, b: T) -> i64 {
        let q = a.quotient(b);
        if !T::IS_SIGNED || a.to_i64().wrapping_sub(q.wrapping_mul(b.to_i64())) >= 0 {
            return q;
        }
        if b.to_i64() > 0 { q - 1 } else { q + 1 }
    }

    pub fn div_euclid_of<T: IntType>(a: Interval<T>, b: Interval<T>) -> Interval<T> {
        if spans_zero(b) {
            return full::<T>();
        }
        let (p, q) = (quotient_euclid(a.lo, b.lo), quotient_euclid(a.hi, b.lo));
        if b.lo == b.hi {
            return wrapped::<T>(p.min(q), p.max(q));
        }
        wrapped_corners::<T>(p, q, quotient_euclid(a.lo, b.hi), quotient_euclid(a.hi, b.hi))
    }

    /// The remainder of a non-negative integer by a power of two is its low bits.
    pub fn low_part<T: IntType>(remainder: Interval<T>, a: Interval<T>, low: i64, high: i64) -> Interval<T> {
        let power = low == high && low & low.wrapping_sub(1) == 0 && a.lo.to_i64() >= 0;
        let mask = if power { low.wrapping_sub(1) as u32 } else { 0u32 };
        with_bits(remainder, a.known & mask, a.value & mask)
    }

    /// The least and the greatest magnitude of a divisor that is not 0.
    #[derive(Clone, Copy)]
    pub struct Magnitudes {
        pub low: i64,
        pub high: i64,
    }

    pub fn magnitudes<T: IntType>(b: Interval<T>) -> Magnitudes {
        let (lo, hi) = (b.lo.to_i64(), b.hi.to_i64());
        if lo > 0 { Magnitudes { low: lo, high: hi } } else { Magnitudes { low: -hi, high: -lo } }
    }

    pub fn rem_of<T: IntType>(a: Interval<T>, b: Interval<T>) -> Interval<T> {
        if spans_zero(b) {
            return full::<T>();
        }
        let by = magnitudes(b);
        let (lo, hi) = (a.lo.to_i64(), a.hi.to_i64());
        if by.low == by.high {
            let q = a.lo.quotient_by_magnitude(by.low);
            if q == a.hi.quotient_by_magnitude(by.low) {
                let whole = q.wrapping_mul(by.low);
                return between::<T>(lo.wrapping_sub(whole), hi.wrapping_sub(whole));
            }
        }
        if lo > -by.low && hi < by.low {
            return a;
        }
        let least = if lo >= 0 { 0i64 } else { lo.max(1 - by.high) };
        let most = if hi <= 0 { 0i64 } else { hi.min(by.high - 1) };
        low_part(between::<T>(least, most), a, by.low, by.high)
    }

    /// The quotient rounded down.
    pub fn quotient_below<T: IntType>(a: T, by: i64) -> i64 {
        let q = a.quotient_by_magnitude(by);
        if q.wrapping_mul(by) > a.to_i64() { q - 1 } else { q }
    }

    pub fn rem_euclid_of<T: IntType>(a: Interval<T>, b: Interval<T>) -> Interval<T> {
        if spans_zero(b) {
            return full::<T>();
        }
        let by = magnitudes(b);
        let (lo, hi) = (a.lo.to_i64(), a.hi.to_i64());
        if by.low == by.high {
            let q = quotient_below(a.lo, by.low);
            if q == quotient_below(a.hi, by.low) {
                let whole = q.wrapping_mul(by.low);
                return between::<T>(lo.wrapping_sub(whole), hi.wrapping_sub(whole));
            }
        }
        if lo >= 0 && hi < by.low {
            return a;
        }
        let most = if lo >= 0 { hi.min(by.high - 1) } else { by.high - 1 };
        low_part(between::<T>(0, most), a, by.low, by.high)
    }

    // ---- shifts, by a distance modulo the width ----

    pub fn shl_of<T: IntType, S: IntType>(a: Interval<T>, by: Interval<S>) -> Interval<T> {
        let (first, last) = (by.lo.to_i64(), by.hi.to_i64());
        let (lo, hi) = (a.lo.to_i64(), a.hi.to_i64());
        if first == last {
            let k = first as u32 & (T::BITS - 1);
            let b = bits(a);
            let bounds = wrapped::<T>(lo << k, hi << k);
            let shifted = KnownBits { known: (b.known << k) | ((1u32 << k) - 1), value: b.value << k };
            return from_bits::<T>(shifted, bounds.lo.to_i64(), bounds.hi.to_i64());
        }
        if first < 0 || last > i64::from(T::BITS) - 1 {
            return full::<T>();
        }
        let (j, k) = (first as u32, last as u32);
        wrapped_corners::<T>(lo << j, lo << k, hi << j, hi << k)
    }

    pub fn shr_of<T: IntType, S: IntType>(a: Interval<T>, by: Interval<S>) -> Interval<T> {
        let (first, last) = (by.lo.to_i64(), by.hi.to_i64());
        let (lo, hi) = (a.lo.to_i64(), a.hi.to_i64());
        if first == last {
            let k = first as u32 & (T::BITS - 1);
            let b = bits(a);
            // the upper bits are copies of the sign, or zeros
            let known = if T::IS_SIGNED { (b.known as i32 >> k) as u32 } else { (b.known >> k) | !(u32::MAX >> k) };
            let value = if T::IS_SIGNED { (b.value as i32 >> k) as u32 } else { b.value >> k };
            return from_bits::<T>(KnownBits { known, value }, lo >> k, hi >> k);
        }
        if first < 0 || last > i64::from(T::BITS) - 1 {
            return full::<T>();
        }
        let (j, k) = (first as u32, last as u32);
        wrapped_corners::<T>(lo >> j, lo >> k, hi >> j, hi >> k)
    }

    // ---- methods ----

    pub fn min_of<T: IntType>(a: Interval<T>, b: Interval<T>) -> Interval<T> {
        between::<T>(a.lo.to_i64().min(b.lo.to_i64()), a.hi.to_i64().min(b.hi.to_i64()))
    }

    pub fn max_of<T: IntType>(a: Interval<T>, b: Interval<T>) -> Interval<T> {
        between::<T>(a.lo.to_i64().max(b.lo.to_i64()), a.hi.to_i64().max(b.hi.to_i64()))
    }

    /// Bounds of |x|.
    pub fn magnitude(from: i64, to: i64) -> Magnitudes {
        if from >= 0 {
            Magnitudes { low: from, high: to }
        } else if to <= 0 {
            Magnitudes { low: to.wrapping_neg(), high: from.wrapping_neg() }
        } else {
            Magnitudes { low: 0, high: to.max(from.wrapping_neg()) }
        }
    }

    pub fn abs_of<T: IntType>(a: Interval<T>) -> Interval<T> {
        let m = magnitude(a.lo.to_i64(), a.hi.to_i64());
        wrapped::<T>(m.low, m.high)
    }

    /// `U` is the unsigned type of T's width.
    pub fn unsigned_abs_of<U: IntType, T: IntType>(a: Interval<T>) -> Interval<U> {
        let m = magnitude(a.lo.to_i64(), a.hi.to_i64());
        between::<U>(m.low, m.high)
    }

    /// `U` is the unsigned type of T's width.
    pub fn abs_diff_of<U: IntType, T: IntType>(a: Interval<T>, b: Interval<T>) -> Interval<U> {
        let m = magnitude(a.lo.to_i64() - b.hi.to_i64(), a.hi.to_i64() - b.lo.to_i64());
        between::<U>(m.low, m.high)
    }

    pub fn signum_of<T: IntType>(a: Interval<T>) -> Interval<T> {
        between::<T>(a.lo.to_i64().signum(), a.hi.to_i64().signum())
    }

    pub fn saturated<T: IntType>(lo: i64, hi: i64) -> Interval<T> {
        between::<T>(lo.clamp(T::LEAST, T::MOST), hi.clamp(T::LEAST, T::MOST))
    }

    pub fn saturating_add_of<T: IntType>(a: Interval<T>, b: Interval<T>) -> Interval<T> {
        saturated::<T>(a.lo.to_i64() + b.lo.to_i64(), a.hi.to_i64() + b.hi.to_i64())
    }

    pub fn saturating_sub_of<T: IntType>(a: Interval<T>, b: Interval<T>) -> Interval<T> {
        saturated::<T>(a.lo.to_i64() - b.hi.to_i64(), a.hi.to_i64() - b.lo.to_i64())
    }

    /// base^n of a base that is not negative, or `limit` + 1 if it is larger than `limit`.
    pub fn power(base: i64, n: i64, limit: i64) -> i64 {
        if base <= 1 {
            return base;
        }
        let mut result = 1i64;
        // a base of 2 or more passes any limit within 32 steps
        for _ in 0..n.min(32) {
            if result > limit / base {
                return limit + 1;
            }
            result = result.wrapping_mul(base);
        }
        result
    }

    /// Unknown for a base that may be negative. `0.pow(0)` is 1.
    pub fn pow_of<T: IntType, S: IntType>(a: Interval<T>, n: Interval<S>) -> Interval<T> {
        if a.lo.to_i64() < 0 || n.lo.to_i64() < 0 {
            return full::<T>();
        }
        let lo = power(a.lo.to_i64(), n.lo.to_i64(), T::MOST);
        let hi = power(a.hi.to_i64().max(1), n.hi.to_i64(), T::MOST);
        if lo > T::MOST || hi > T::MOST {
            return full::<T>();
        }
        between::<T>(lo, hi)
    }

    pub fn count_ones_of<T: IntType>(a: Interval<T>) -> Interval<u32> {
        let b = bits(a);
        let least = (b.value & T::MASK).count_ones();
        between::<u32>(i64::from(least), i64::from(((b.value | !b.known) & T::MASK).count_ones()))
    }

    pub fn is_power_of_two_of<T: IntType>(a: Interval<T>) -> Tristate {
        let count = count_ones_of(a);
        known(count.lo == 1 && count.hi == 1, count.lo > 1 || count.hi == 0)
    }

    pub fn leading_zeros_of<T: IntType>(a: Interval<T>) -> Interval<u32> {
        let (lo, hi) = (a.lo.to_i64(), a.hi.to_i64());
        if lo < 0 {
            // a negative number has no leading zeros
            return between::<u32>(0, if hi < 0 { 0i64 } else { 32i64 });
        }
        let above = 32 - i64::from(T::BITS);
        let (least, most) = ((hi as u32).leading_zeros(), (lo as u32).leading_zeros());
        between::<u32>(i64::from(least) - above, i64::from(most) - above)
    }

    pub fn trailing_zeros_of<T: IntType>(a: Interval<T>) -> Interval<u32> {
        let b = bits(a);
        let least = low_ones(b.known & !b.value & T::MASK).count_ones();
        let most = (b.value & T::MASK).trailing_zeros();
        between::<u32>(i64::from(least.min(T::BITS)), i64::from(most.min(T::BITS)))
    }
}

macro_rules! int_types {
    ($($t:ty, $mask:expr);*) => {$(
        impl IntType for $t {
            const LEAST: i64 = <$t>::MIN as i64;
            const MOST: i64 = <$t>::MAX as i64;
            const MASK: u32 = $mask;
            const BITS: u32 = <$t>::BITS;
            const IS_SIGNED: bool = <$t>::MIN != 0;

            #[inline]
            fn to_i64(self) -> i64 {
                i64::from(self)
            }
            #[inline]
            fn from_i64(x: i64) -> Self {
                x as $t
            }
            #[inline]
            fn quotient(self, by: Self) -> i64 {
                i64::from(self) / i64::from(by)
            }
            #[inline]
            fn quotient_by_magnitude(self, by: i64) -> i64 {
                i64::from(self) / by
            }
        }
    )*};
}
int_types!(i32, u32::MAX; u32, u32::MAX; u8, 0xff);
