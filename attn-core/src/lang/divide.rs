//! Division by a scalar parameter: a multiplication by a reciprocal that the host computes once. It is exact for every
//! i32 and u32, and saves the tens of instructions of a division by a run-time value.
//!
//! T. Granlund, P. L. Montgomery, "Division by invariant integers using multiplication", PLDI 1994, figures 4.1 and
//! 5.1. As everywhere in kernels, division by zero gives 0, and `i32::MIN / -1` wraps.

/// Division of i32.
#[allow(clippy::module_name_repetitions)]
#[attn_macros::device_mod(
    namespace = "lang::signed_divisor",
    include = "lang/math.cuh",
    include = "lang/operators.cuh"
)]
pub mod signed {
    /// A divisor and its reciprocal: magic = 2^(32 + shift) / |value| + 1 - 2^32. For value 0: magic 0, shift 31.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
    pub struct Divisor {
        /// The divisor.
        pub value: i32,
        /// The reciprocal, without the bit 2^32: the dividend is added for it.
        pub magic: u32,
        /// Shift after taking the high word.
        pub shift: u32,
    }

    impl Divisor {
        /// Prepares a divisor.
        pub fn new(value: i32) -> Divisor {
            let size = value.unsigned_abs();
            if size == 0 {
                return Divisor { value, magic: 0, shift: 31 };
            }
            let shift = super::bits(size - 1).max(1) - 1;
            let magic = (1u64 << (32 + shift)) / u64::from(size) + 1;
            Divisor { value, magic: magic as u32, shift }
        }
    }

    /// The quotient by |value|, at most |a| in magnitude, is rounded towards zero, then given the divisor's sign.
    pub fn div_by(a: i32, by: Divisor) -> i32 {
        let high = ((i64::from(a) * i64::from(by.magic as i32)) >> 32) as u32;
        let quotient = (a as u32).wrapping_add(high) as i32;
        let sign = (by.value >> 31) as u32;
        let size = ((quotient >> by.shift) as u32).wrapping_sub((a >> 31) as u32);
        (size ^ sign).wrapping_sub(sign) as i32
    }

    /// A remainder by zero is 0. Selecting the dividend compiles to a select, selecting the result would be a branch.
    pub fn rem_by(a: i32, by: Divisor) -> i32 {
        let of = if by.value == 0 { 0 } else { a };
        (of as u32).wrapping_sub((div_by(of, by) as u32).wrapping_mul(by.value as u32)) as i32
    }

    /// The remainder that is not negative.
    pub fn rem_euclid_by(a: i32, by: Divisor) -> i32 {
        let r = rem_by(a, by);
        let size = if by.value < 0 { 0u32.wrapping_sub(by.value as u32) } else { by.value as u32 };
        if r < 0 { (r as u32).wrapping_add(size) as i32 } else { r }
    }

    /// The quotient that goes with it.
    pub fn div_euclid_by(a: i32, by: Divisor) -> i32 {
        let q = div_by(a, by);
        let r = (a as u32).wrapping_sub((q as u32).wrapping_mul(by.value as u32)) as i32;
        if by.value == 0 || r >= 0 {
            return q;
        }
        let step = if by.value > 0 { 0u32.wrapping_sub(1) } else { 1u32 };
        (q as u32).wrapping_add(step) as i32
    }
}

/// Division of u32.
#[attn_macros::device_mod(
    namespace = "lang::unsigned_divisor",
    include = "lang/math.cuh",
    include = "lang/operators.cuh"
)]
pub mod unsigned {
    /// A divisor and its reciprocal. With l the number of bits of value - 1: magic = 2^32 (2^l - value) / value + 1,
    /// shift = l. For value 0: magic 0, shift 32.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
    pub struct Divisor {
        /// The divisor.
        pub value: u32,
        /// The reciprocal.
        pub magic: u32,
        /// Shift after taking the high word.
        pub shift: u32,
    }

    impl Divisor {
        /// Prepares a divisor.
        pub fn new(value: u32) -> Divisor {
            if value == 0 {
                return Divisor { value, magic: 0, shift: 32 };
            }
            let shift = super::bits(value - 1);
            let magic = (((1u64 << shift) - u64::from(value)) << 32) / u64::from(value) + 1;
            Divisor { value, magic: magic as u32, shift }
        }
    }

    /// The quotient. The first of two shifts is the same for all threads.
    pub fn div_by(a: u32, by: Divisor) -> u32 {
        let high = ((u64::from(by.magic) * u64::from(a)) >> 32) as u32;
        let first = if by.shift == 0 { 0u32 } else { 1u32 };
        high.wrapping_add((a.wrapping_sub(high)) >> first) >> (by.shift.wrapping_sub(first))
    }

    /// A remainder by zero is 0.
    pub fn rem_by(a: u32, by: Divisor) -> u32 {
        let of = if by.value == 0 { 0 } else { a };
        of.wrapping_sub(div_by(of, by).wrapping_mul(by.value))
    }

    /// The remainder again.
    pub fn rem_euclid_by(a: u32, by: Divisor) -> u32 {
        rem_by(a, by)
    }

    /// The quotient again.
    pub fn div_euclid_by(a: u32, by: Divisor) -> u32 {
        div_by(a, by)
    }
}

/// The bit length of a number.
fn bits(n: u32) -> u32 {
    u32::BITS - n.leading_zeros()
}

#[cfg(test)]
mod tests {
    use super::{signed, unsigned};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn quotients_and_remainders_are_exact(a: i32, b: i32, narrow in 0u32..32) {
            let b = b >> narrow;
            let by = signed::Divisor::new(b);
            let (q, r) = if b == 0 { (0, 0) } else { (a.wrapping_div(b), a.wrapping_rem(b)) };
            prop_assert_eq!((signed::div_by(a, by), signed::rem_by(a, by)), (q, r));
            let (q, r) = if b == 0 { (0, 0) } else { (a.wrapping_div_euclid(b), a.wrapping_rem_euclid(b)) };
            prop_assert_eq!((signed::div_euclid_by(a, by), signed::rem_euclid_by(a, by)), (q, r));
            let (a, b) = (a as u32, b as u32);
            let by = unsigned::Divisor::new(b);
            let (q, r) = (a.checked_div(b).unwrap_or(0), a.checked_rem(b).unwrap_or(0));
            prop_assert_eq!((unsigned::div_by(a, by), unsigned::rem_by(a, by)), (q, r));
            prop_assert_eq!((unsigned::div_euclid_by(a, by), unsigned::rem_euclid_by(a, by)), (q, r));
        }
    }
}
