//! Intervals of integers of 64 bits, and what intervals know of cells and of powers of two, for the host and for
//! kernels. Only variants that use them have the text.

pub use device::Wide;
pub(crate) use device::*;

/// Intervals of 64-bit integers within 2^61 of zero. Beyond, nothing is known.
#[allow(unreachable_pub)] // re-exported within the crate
#[allow(clippy::manual_range_contains)] // the text in kernels has no ranges
#[attn_macros::device_mod(namespace = "lang::interval::wide_fn", include = "lang/int_fn.cuh")]
mod device {
    use crate::lang::Tristate;

    /// The integers from `lo` to `hi`; any of the type if not `known`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Wide {
        /// The least.
        pub lo: i64,
        /// The greatest.
        pub hi: i64,
        /// Whether there are bounds.
        pub known: bool,
        /// Whether the type is u64.
        pub is_unsigned: bool,
    }

    const FARTHEST: i64 = 0x2000_0000_0000_0000;

    /// The integers from `lo` to `hi`, which no operation has wrapped in 64 bits.
    #[inline]
    pub fn wide(lo: i64, hi: i64, is_unsigned: bool) -> Wide {
        let fits = lo >= -FARTHEST && hi <= FARTHEST && lo <= hi && !(is_unsigned && lo < 0);
        Wide { lo: if fits { lo } else { 0 }, hi: if fits { hi } else { 0 }, known: fits, is_unsigned }
    }

    #[inline]
    pub fn unknown_wide(is_unsigned: bool) -> Wide {
        Wide { lo: 0, hi: 0, known: false, is_unsigned }
    }

    pub fn wide_add(a: Wide, b: Wide) -> Wide {
        if !a.known || !b.known {
            return unknown_wide(a.is_unsigned);
        }
        wide(a.lo + b.lo, a.hi + b.hi, a.is_unsigned)
    }

    pub fn wide_sub(a: Wide, b: Wide) -> Wide {
        if !a.known || !b.known {
            return unknown_wide(a.is_unsigned);
        }
        wide(a.lo - b.hi, a.hi - b.lo, a.is_unsigned)
    }

    pub fn wide_neg(a: Wide) -> Wide {
        if !a.known {
            return a;
        }
        wide(-a.hi, -a.lo, a.is_unsigned)
    }

    /// The greatest magnitude.
    pub fn wide_size(a: Wide) -> i64 {
        a.hi.max(-a.lo)
    }

    pub fn wide_mul(a: Wide, b: Wide) -> Wide {
        if !a.known || !b.known {
            return unknown_wide(a.is_unsigned);
        }
        let (x, y) = (wide_size(a), wide_size(b));
        if x != 0 && y > FARTHEST / x {
            return unknown_wide(a.is_unsigned);
        }
        let (p, q) = (a.lo.wrapping_mul(b.lo), a.lo.wrapping_mul(b.hi));
        let (r, s) = (a.hi.wrapping_mul(b.lo), a.hi.wrapping_mul(b.hi));
        wide(p.min(q).min(r.min(s)), p.max(q).max(r.max(s)), a.is_unsigned)
    }

    /// Whether the divisor is one positive number.
    pub fn wide_divides(a: Wide, b: Wide) -> bool {
        a.known && b.known && b.lo > 0 && b.lo == b.hi
    }

    /// The quotient rounded down.
    pub fn floor_div(a: i64, by: i64) -> i64 {
        let q = a / by;
        if q.wrapping_mul(by) > a { q - 1 } else { q }
    }

    pub fn wide_div(a: Wide, b: Wide) -> Wide {
        if !wide_divides(a, b) {
            return unknown_wide(a.is_unsigned);
        }
        wide(a.lo / b.lo, a.hi / b.lo, a.is_unsigned)
    }

    pub fn wide_div_euclid(a: Wide, b: Wide) -> Wide {
        if !wide_divides(a, b) {
            return unknown_wide(a.is_unsigned);
        }
        wide(floor_div(a.lo, b.lo), floor_div(a.hi, b.lo), a.is_unsigned)
    }

    pub fn wide_rem_euclid(a: Wide, b: Wide) -> Wide {
        if !wide_divides(a, b) {
            return unknown_wide(a.is_unsigned);
        }
        let q = floor_div(a.lo, b.lo);
        if q == floor_div(a.hi, b.lo) {
            let whole = q.wrapping_mul(b.lo);
            return wide(a.lo - whole, a.hi - whole, a.is_unsigned);
        }
        wide(0, b.lo - 1, a.is_unsigned)
    }

    /// The remainder with the sign of `a`.
    pub fn wide_rem(a: Wide, b: Wide) -> Wide {
        if a.known && a.lo >= 0 {
            return wide_rem_euclid(a, b);
        }
        if !wide_divides(a, b) {
            return unknown_wide(a.is_unsigned);
        }
        wide((1 - b.lo).max(a.lo), if a.hi <= 0 { 0i64 } else { (b.lo - 1).min(a.hi) }, a.is_unsigned)
    }

    pub fn wide_min(a: Wide, b: Wide) -> Wide {
        if !a.known || !b.known {
            return unknown_wide(a.is_unsigned);
        }
        wide(a.lo.min(b.lo), a.hi.min(b.hi), a.is_unsigned)
    }

    pub fn wide_max(a: Wide, b: Wide) -> Wide {
        if !a.known || !b.known {
            return unknown_wide(a.is_unsigned);
        }
        wide(a.lo.max(b.lo), a.hi.max(b.hi), a.is_unsigned)
    }

    pub fn wide_abs(a: Wide) -> Wide {
        if !a.known {
            return a;
        }
        let least = if a.lo > 0 { a.lo } else { 0i64.max(-a.hi) };
        wide(least, wide_size(a), a.is_unsigned)
    }

    /// Of numbers that are not negative. By a mask of low bits it is a remainder.
    pub fn wide_and(a: Wide, b: Wide) -> Wide {
        if !a.known || !b.known || a.lo < 0 || b.lo < 0 {
            return unknown_wide(a.is_unsigned);
        }
        if b.lo == b.hi && b.lo & (b.lo + 1) == 0 {
            return wide_rem_euclid(a, wide(b.lo + 1, b.lo + 1, a.is_unsigned));
        }
        if a.lo == a.hi && a.lo & (a.lo + 1) == 0 {
            return wide_rem_euclid(b, wide(a.lo + 1, a.lo + 1, a.is_unsigned));
        }
        if a.lo == a.hi && b.lo == b.hi {
            return wide(a.lo & b.lo, a.lo & b.lo, a.is_unsigned);
        }
        wide(0, a.hi.min(b.hi), a.is_unsigned)
    }

    /// By a distance that is known.
    pub fn wide_shl(a: Wide, by: i64) -> Wide {
        if by < 0 || by > 60 {
            return unknown_wide(a.is_unsigned);
        }
        wide_mul(a, wide(1i64 << by, 1i64 << by, a.is_unsigned))
    }

    pub fn wide_shr(a: Wide, by: i64) -> Wide {
        if by < 0 || by > 63 || !a.known {
            return unknown_wide(a.is_unsigned);
        }
        wide(a.lo >> by, a.hi >> by, a.is_unsigned)
    }

    pub fn wide_join(a: Wide, b: Wide) -> Wide {
        if !a.known || !b.known {
            return unknown_wide(a.is_unsigned);
        }
        wide(a.lo.min(b.lo), a.hi.max(b.hi), a.is_unsigned)
    }

    pub fn truth_of(is_true: bool, is_false: bool) -> Tristate {
        if is_true {
            Tristate::True
        } else if is_false {
            Tristate::False
        } else {
            Tristate::Unknown
        }
    }

    pub fn wide_lt(a: Wide, b: Wide) -> Tristate {
        let known = a.known && b.known;
        truth_of(known && a.hi < b.lo, known && a.lo >= b.hi)
    }

    pub fn wide_le(a: Wide, b: Wide) -> Tristate {
        let known = a.known && b.known;
        truth_of(known && a.hi <= b.lo, known && a.lo > b.hi)
    }

    pub fn wide_eq(a: Wide, b: Wide) -> Tristate {
        let known = a.known && b.known;
        truth_of(known && a.lo == a.hi && b.lo == b.hi && a.lo == b.lo, known && (a.hi < b.lo || b.hi < a.lo))
    }

    // ---- cells of a cycle: `x.rem_euclid(m) / size` ----

    /// Whether the integers from `lo` to `hi` have a multiple of `m`, which is positive.
    pub fn has_multiple(lo: i64, hi: i64, m: i64) -> bool {
        floor_div(hi, m).wrapping_mul(m) >= lo
    }

    /// Whether no x of `x` is in a cell of `y`, where both are between bounds, and m is a multiple of `size`.
    pub fn cells_differ(x: Wide, y: Wide, m: i64, size: i64) -> bool {
        if m <= 0 || size <= 0 || m % size != 0 || y.lo < 0 || y.hi >= m / size {
            return false;
        }
        !has_multiple(x.lo - (y.hi * size + (size - 1)), x.hi - y.lo * size, m)
    }

    /// Whether no x and y are in the same cell.
    pub fn cells_are_apart(x: Wide, y: Wide, m: i64, size: i64) -> bool {
        if m <= 0 || size <= 0 || m % size != 0 {
            return false;
        }
        let (from, to) = (floor_div(y.lo, size) * size, floor_div(y.hi, size) * size + (size - 1));
        !has_multiple(x.lo - to, x.hi - from, m)
    }

    // ---- x & (x - 1) ----

    /// The bounds of `x & (x - 1)` of few integers.
    pub fn cleared(lo: i64, hi: i64) -> Wide {
        let mut least = lo & (lo - 1);
        let mut most = least;
        for i in 1..16 {
            let x = (lo + i).min(hi);
            let y = x & (x - 1);
            least = least.min(y);
            most = most.max(y);
        }
        Wide { lo: least, hi: most, known: hi - lo < 16 && lo >= 0, is_unsigned: false }
    }

    /// Whether positive integers have no power of two among them.
    pub fn has_no_power(lo: i64, hi: i64) -> bool {
        lo > 0 && lo & (lo - 1) != 0 && lo.leading_zeros() == hi.leading_zeros()
    }
}
