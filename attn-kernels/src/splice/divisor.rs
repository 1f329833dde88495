//! The words of a `Divisor`, by which cuda/lang/divide.cuh divides by a scalar parameter. The host computes them once.
//!
//! T. Granlund, P. L. Montgomery, "Division by invariant integers using multiplication", PLDI 1994, figures 4.1 and
//! 5.1.

/// The words of `Divisor<int>`: value, magic, shift. Division by zero gives 0.
#[must_use]
pub fn signed(value: i32) -> [u32; 3] {
    let size = value.unsigned_abs();
    if size == 0 {
        return [0, 0, 31];
    }
    let shift = bits(size - 1).max(1) - 1;
    let magic = (1u64 << (32 + shift)) / u64::from(size) + 1;
    // without the bit 2^32: the kernel adds the dividend for it
    [value as u32, magic as u32, shift]
}

/// The words of `Divisor<u32>`: value, magic, shift. Division by zero gives 0.
#[must_use]
pub fn unsigned(value: u32) -> [u32; 3] {
    if value == 0 {
        return [0, 0, 32];
    }
    let shift = bits(value - 1);
    let magic = (((1u64 << shift) - u64::from(value)) << 32) / u64::from(value) + 1;
    [value, magic as u32, shift]
}

/// The bit length of a number.
fn bits(n: u32) -> u32 {
    u32::BITS - n.leading_zeros()
}
