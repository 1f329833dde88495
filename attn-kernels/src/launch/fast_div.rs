//! Division by a number that is known at launch time.

use attn_macros::CudaStruct;
use bytemuck::{Pod, Zeroable};

/// `n / divisor` for `0 <= n < 2^31` as a multiplication: `umulhi(n, magic) >> shift`; magic 0 means divisor 1.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable, CudaStruct)]
pub struct FastDiv {
    /// The divisor.
    pub divisor: u32,
    /// Multiplier.
    pub magic: u32,
    /// Shift after taking the high word.
    pub shift: u32,
}

impl FastDiv {
    /// The words for a divisor from 1 to `i32::MAX`; 0 counts as 1.
    #[must_use]
    pub fn new(divisor: u32) -> Self {
        if divisor <= 1 {
            return FastDiv { divisor: 1, magic: 0, shift: 0 };
        }
        // With l = ceil(log2 d) and magic = ceil(2^(31 + l) / d) the error of magic * d is below d <= 2^l, which times
        // n < 2^31 stays below 2^(31 + l): the quotient is exact.
        let log = 32 - (divisor - 1).leading_zeros();
        let magic = (1u64 << (31 + log)).div_ceil(u64::from(divisor)) as u32;
        FastDiv { divisor, magic, shift: log - 1 }
    }

    /// The quotient as the device computes it.
    #[cfg(test)]
    fn divide(self, n: u32) -> u32 {
        if self.magic == 0 { n } else { ((u64::from(n) * u64::from(self.magic)) >> 32) as u32 >> self.shift }
    }
}

#[cfg(test)]
mod tests {
    use super::FastDiv;

    #[test]
    fn quotients_are_exact() {
        let divisors =
            (1..300).chain((8..31).flat_map(|b| [(1 << b) - 1, 1 << b, (1 << b) + 1])).chain([i32::MAX as u32]);
        for d in divisors {
            let fast = FastDiv::new(d);
            let around =
                (0..40).map(|k| k * (i32::MAX as u32 / 40)).flat_map(|n| [n, n - n % d, (n - n % d).saturating_sub(1)]);
            for n in around.chain(0..300).chain([i32::MAX as u32]) {
                assert_eq!(fast.divide(n), n / d, "{n} / {d}");
            }
        }
    }
}
