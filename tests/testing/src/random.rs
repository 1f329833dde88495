//! Reproducible random numbers: the data of a case depends on its seed alone.

use attn_core::tensor::Element;
use rand_distr::{Distribution as _, StandardNormal};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{RngCore as _, SeedableRng as _};

/// A stream of random numbers; each tensor has its own.
///
/// Grids name their cases by seeds, so these functions must not change what they return for a seed. The uniform ones
/// are therefore written here: `rand` may change how it maps bits to a range.
#[derive(Clone, Debug)]
pub struct Random(SplitMix64);

impl Random {
    /// The stream `stream` of a seed.
    pub(super) fn new(seed: u64, stream: u64) -> Self {
        let seed = seed ^ stream.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17);
        let mut random = Random(SplitMix64::seed_from_u64(seed));
        random.next_u64();
        random
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform in `0..n`; `n` is at least 1.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// One standard normal value.
    pub fn normal(&mut self) -> f32 {
        StandardNormal.sample(&mut self.0)
    }

    /// A permutation of `0..n`.
    pub(super) fn permutation(&mut self, n: u32) -> Vec<i32> {
        let mut order: Vec<i32> = (0..n as i32).collect();
        for i in (1..order.len()).rev() {
            order.swap(i, self.below(i as u64 + 1) as usize);
        }
        order
    }
}

/// Fills tensors with values of N(0, std²), rounded to the element. Each value is one of 65536 that were drawn before,
/// because inputs may have gigabytes.
pub(super) struct Normal<T> {
    table: Vec<T>,
}

impl<T: Element> Normal<T> {
    pub(super) fn new(std: f32) -> Self {
        let mut random = Random::new(0, 0);
        Normal { table: (0..=u16::MAX).map(|_| T::from_f32(random.normal() * std)).collect() }
    }

    pub(super) fn fill(&self, out: &mut [T], random: &mut Random) {
        for four in out.chunks_mut(4) {
            let bits = random.next_u64();
            for (i, x) in four.iter_mut().enumerate() {
                *x = self.table[(bits >> (16 * i)) as u16 as usize];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Normal, Random};

    #[test]
    fn values_have_mean_zero_and_the_deviation_asked() {
        let mut values = vec![0f32; 100_000];
        Normal::new(3.0).fill(&mut values, &mut Random::new(1, 2));
        let mean = values.iter().map(|&x| f64::from(x)).sum::<f64>() / 1e5;
        let var = values.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / 1e5;
        assert!(mean.abs() < 0.05 && (var.sqrt() - 3.0).abs() < 0.03, "mean {mean}, deviation {}", var.sqrt());
    }

    #[test]
    fn streams_differ_and_permutations_are_permutations() {
        assert_ne!(Random::new(1, 2).next_u64(), Random::new(1, 3).next_u64());
        let mut order = Random::new(5, 0).permutation(1000);
        assert_ne!(order[..10], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        order.sort_unstable();
        assert!(order.iter().enumerate().all(|(i, &x)| i as i32 == x));
    }
}
