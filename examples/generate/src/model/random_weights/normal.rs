//! Random numbers that depend on a key and an index alone.

/// The standard deviation of a sum of four uniform numbers of 16 bits: `sqrt(4 (2^32 - 1) / 12)`.
const SUM_DEVIATION: f32 = 37_837.227;

/// A number of about a normal distribution: a centred sum of four uniform numbers, which are the parts of SplitMix64's
/// hash of the index. `fill.cu` has the same to the bit.
pub(super) fn normal(key: u64, index: u64, deviation: f32) -> f32 {
    let mut bits = key.wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^= bits >> 31;
    let parts = [bits & 0xffff, bits >> 16 & 0xffff, bits >> 32 & 0xffff, bits >> 48];
    // the sum has 18 bits, so that f32 has it exactly
    let centred = parts.iter().sum::<u64>() as i32 - 2 * 0xffff;
    centred as f32 * (deviation / SUM_DEVIATION)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_moments_of_a_normal_distribution() {
        let numbers: Vec<f64> = (0..100_000).map(|i| f64::from(normal(7, i, 0.5))).collect();
        let moment = |power: i32| numbers.iter().map(|x| x.powi(power)).sum::<f64>() / numbers.len() as f64;
        assert!(moment(1).abs() < 0.01, "mean {}", moment(1));
        assert!((moment(2) - 0.25).abs() < 0.005, "variance {}", moment(2));
        assert!(numbers.iter().all(|x| x.abs() <= 0.5 * 3.47));
    }
}
