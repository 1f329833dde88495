//! Counter-based random numbers for hooks: dropout, noise on logits. A number is a function of its coordinates, so it
//! is the same on CPU and GPU, in any order of tiles, and in a backward pass.
//!
//! The generator is Philox-4x32-10 (J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel random numbers: as
//! easy as 1, 2, 3", SC 2011) with key (seed, stream) and counter (i, j, 0, 0); the first word of its output is used.
//!
//! ```
//! # extern crate attn_core as attn;
//! use attn::random;
//! // dropout of the logit (i, j) of a head: seed and step are parameters
//! let (seed, head, i, j) = (7, 3, 100, 42);
//! assert_eq!(random::bits(seed, head, i, j), 0xf614_304c);
//! assert!(random::uniform(seed, head, i, j) >= 0.1);
//! ```

pub(crate) use device::CUDA;
pub use device::{bits, bits64, uniform};

/// Counter-based random numbers: Philox-4x32-10 (J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, SC 2011).
#[attn_macros::device_mod(namespace = "lang::random", include = "lang/types.cuh")]
mod device {
    /// Ten rounds on the counter (a, b, c, d) with the key (seed, stream).
    pub(super) fn philox(
        seed: u32,
        stream: u32,
        mut a: u32,
        mut b: u32,
        mut c: u32,
        mut d: u32,
    ) -> (u32, u32, u32, u32) {
        // ten rounds for each of a thread's logits would be thousands of instructions
        #[unroll(2)]
        for round in 0..10u32 {
            let first = 0xd251_1f53_u64 * u64::from(a);
            let second = 0xcd9e_8d57_u64 * u64::from(c);
            let key0 = seed.wrapping_add(round.wrapping_mul(0x9e37_79b9));
            let key1 = stream.wrapping_add(round.wrapping_mul(0xbb67_ae85));
            a = (second >> 32) as u32 ^ b ^ key0;
            b = second as u32;
            c = (first >> 32) as u32 ^ d ^ key1;
            d = first as u32;
        }
        (a, b, c, d)
    }

    /// 64 random bits, a function of a seed of 64 bits, a position, and the number of the draw at this position.
    #[must_use]
    pub fn bits64(seed: u64, position: u64, draw: u32) -> u64 {
        let (low, high, _, _) =
            philox(seed as u32, (seed >> 32) as u32, position as u32, (position >> 32) as u32, draw, 1);
        (u64::from(high) << 32) | u64::from(low)
    }

    /// 32 random bits, a function of seed, stream, i and j.
    #[must_use]
    pub fn bits(seed: u32, stream: u32, i: u32, j: u32) -> u32 {
        philox(seed, stream, i, j, 0, 0).0
    }

    /// A uniform number in `0 <= x < 1`, a multiple of 2^-24: the upper 24 [`bits`].
    #[must_use]
    pub fn uniform(seed: u32, stream: u32, i: u32, j: u32) -> f32 {
        (bits(seed, stream, i, j) >> 8) as f32 * (1.0 / 16_777_216.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The known answers that the authors publish with their code (Random123, `kat_vectors`).
    #[test]
    fn philox_gives_the_published_answers() {
        let philox = |[a, b, c, d]: [u32; 4], [seed, stream]: [u32; 2]| {
            let (a, b, c, d) = device::philox(seed, stream, a, b, c, d);
            [a, b, c, d]
        };
        assert_eq!(philox([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(philox([u32::MAX; 4], [u32::MAX; 2]), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
        let counter = [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344];
        let want = [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1];
        assert_eq!(philox(counter, [0xa409_3822, 0x299f_31d0]), want);
    }

    #[test]
    fn uniform_numbers_fill_the_unit_interval() {
        let numbers: Vec<f32> = (0..40_000).map(|n| uniform(1, 2, n / 200, n % 200)).collect();
        assert!(numbers.iter().all(|x| (0.0..1.0).contains(x)));
        let mean = numbers.iter().map(|&x| f64::from(x)).sum::<f64>() / numbers.len() as f64;
        // six standard deviations of the mean
        assert!((mean - 0.5).abs() < 6.0 * (1.0f64 / 12.0 / 40_000.0).sqrt(), "{mean}");
        assert_ne!(bits(1, 2, 3, 4), bits(2, 1, 3, 4));
        assert_ne!(bits(1, 2, 3, 4), bits(1, 2, 4, 3));
    }
}
