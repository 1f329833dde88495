//! Arithmetic of the reference: each result is computed in f64 and rounded once.

use super::small_float::F16;

/// The number as f16 holds it.
pub(super) fn f16_round(x: f64) -> f32 {
    F16.value(F16.encode(x as f32)) as f32
}

/// A finite number within the range of f16.
pub(super) fn saturated(x: f64) -> f64 {
    if x.is_finite() { f64::from(x as f32).clamp(-65504.0, 65504.0) } else { x }
}

/// The correctly rounded quotient: f64 has more than twice the bits.
pub(super) fn divided(a: f32, b: f32) -> f32 {
    (f64::from(a) / f64::from(b)) as f32
}

/// The correctly rounded product.
pub(super) fn times(a: f32, b: f32) -> f32 {
    (f64::from(a) * f64::from(b)) as f32
}

/// The nearest integer, of two as near the even one; within bounds, and 0 for a NaN.
pub(super) fn rounded(x: f32, low: i32, high: i32) -> i32 {
    if x.is_nan() {
        return 0;
    }
    let x = f64::from(x).clamp(f64::from(low), f64::from(high));
    let below = x.floor();
    let odd = below.rem_euclid(2.0) == 1.0;
    (if x - below > 0.5 || x - below == 0.5 && odd { below + 1.0 } else { below }) as i32
}

/// The code of an element, 0 where the scale is 0.
pub(super) fn code(x: f32, scale: f32, low: i32, high: i32) -> i32 {
    if scale == 0.0 { 0 } else { rounded(divided(x, scale), low, high) }
}

/// The exponent of a normal number.
pub(super) fn floor_log2(x: f64) -> i32 {
    ((x.to_bits() >> 52 & 0x7ff) as i32) - 1023
}

/// The largest magnitude, a NaN if there is one.
pub(super) fn max_abs(x: &[f32]) -> f64 {
    largest(&x.iter().map(|v| v.abs()).collect::<Vec<_>>())
}

/// The largest number, a NaN if there is one; zeros are positive.
pub(super) fn largest(x: &[f32]) -> f64 {
    if x.iter().any(|v| v.is_nan()) {
        return f64::NAN;
    }
    f64::from(x.iter().copied().fold(f32::NEG_INFINITY, |a, b| if b > a { b } else { a })) + 0.0
}

/// The least number, a NaN if there is one; zeros are positive.
pub(super) fn least(x: &[f32]) -> f64 {
    -largest(&x.iter().map(|v| -v).collect::<Vec<_>>()) + 0.0
}

/// The tree of a sum: elements at even places and those at odd places, each as such a tree.
pub(super) fn tree(x: &[f32]) -> f32 {
    match x {
        [one] => *one,
        x => {
            let half = |from: usize| x.iter().copied().skip(from).step_by(2).collect::<Vec<_>>();
            tree(&half(0)) + tree(&half(1))
        }
    }
}

/// Zeros up to a power of two.
pub(super) fn padded(mut x: Vec<f32>) -> Vec<f32> {
    x.resize(x.len().next_power_of_two(), 0.0);
    x
}

pub(super) fn put_f32(bytes: &mut [u8], at: usize, x: f32) {
    let x = if x.is_nan() { f32::from_bits(0x7fc0_0000) } else { x };
    bytes[at..at + 4].copy_from_slice(&x.to_le_bytes());
}

pub(super) fn put_u16(bytes: &mut [u8], at: usize, x: u32) {
    (bytes[at], bytes[at + 1]) = (x as u8, (x >> 8) as u8);
}

/// Codes of 4 bits, the even element in the lower half of a byte.
pub(super) fn put_nibbles(bytes: &mut [u8], nibbles: &[i32]) {
    for (byte, pair) in bytes.iter_mut().zip(nibbles.chunks(2)) {
        *byte = (pair[0] & 15) as u8 + 16 * (pair[1] & 15) as u8;
    }
}
