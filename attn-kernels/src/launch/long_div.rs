//! Division of 64-bit numbers by a divisor that the host knows.

use bytemuck::{Pod, Zeroable};

/// A divisor as the device divides by it: `n / divisor` for `n < 2^63` is the upper half of `2 * n * magic`, shifted right.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct LongDiv {
    /// At least 1.
    pub divisor: u64,
    /// About `2^(63 + shift) / divisor`.
    pub magic: u64,
    /// Bits to the right.
    pub shift: u64,
}

impl LongDiv {
    /// For any divisor; 0 is taken as 1.
    #[must_use]
    pub fn new(divisor: u64) -> Self {
        let divisor = divisor.max(1);
        if divisor > 1 << 63 {
            return LongDiv { divisor, magic: 0, shift: 0 };
        }
        // With l = ceil(log2 d) and magic = ceil(2^(63 + l) / d) the error of magic * d is below d <= 2^l, which times n < 2^63 stays below 2^(63 + l):
        // the quotient is exact. The magic is below 2^64, as d > 2^(l - 1), or 1.
        let log = 64 - (divisor - 1).leading_zeros();
        let magic = (1u128 << (63 + log)).div_ceil(divisor.into()) as u64;
        LongDiv { divisor, magic, shift: log.into() }
    }

    /// What the device computes.
    #[cfg(test)]
    fn divide(self, n: u64) -> u64 {
        ((u128::from(2 * n) * u128::from(self.magic)) >> 64) as u64 >> self.shift
    }
}

#[cfg(test)]
mod tests {
    use super::LongDiv;

    #[test]
    fn quotients_are_exact() {
        let most = i64::MAX as u64;
        let powers = (8..64).flat_map(|bit| [(1 << bit) - 1, 1 << bit, (1 << bit) + 1]);
        for d in (1..300).chain(powers).chain([u64::from(u32::MAX) * u64::from(u32::MAX), u64::MAX]) {
            let long = LongDiv::new(d);
            let around = (0..60).map(|k| most >> k).flat_map(|n| [n, n - n % d, (n - n % d).saturating_sub(1)]);
            for n in around.chain(0..50) {
                assert_eq!(long.divide(n), n / d, "{n} / {d}");
            }
        }
    }
}
