//! Made-up weights: random numbers in the place of a file, for benchmarks and tests. The time of a step does not depend
//! on them.

use rand::{SeedableRng, rngs::SmallRng};
use rand_distr::{Distribution, Normal};
use rayon::prelude::*;

use super::{config::LlamaConfig, weights::Checkpoint};
use crate::Error;

/// Numbers that are drawn from one seed.
const BLOCK: usize = 1 << 16;

/// Random numbers of mean 0, those of a seed and a standard deviation.
///
/// # Panics
///
/// For a deviation that is not finite.
pub fn normal(count: usize, seed: u64, deviation: f32) -> Vec<f32> {
    let distribution = Normal::new(0.0, deviation).expect("a finite deviation");
    let mut numbers = vec![0.0; count];
    numbers.par_chunks_mut(BLOCK).enumerate().for_each(|(block, numbers)| {
        let mut rng = SmallRng::seed_from_u64(seed.wrapping_add(block as u64));
        numbers.iter_mut().for_each(|number| *number = distribution.sample(&mut rng));
    });
    numbers
}

/// A checkpoint of random numbers. The same seed gives the same numbers.
///
/// Rows of a matrix have unit length on average, and those that add to the residual are shorter by `sqrt(2 layers)`
/// (GPT-2), so activations stay near 1 through any number of layers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MadeUp {
    /// The shape.
    pub config: LlamaConfig,
    /// Whether the head is the embedding.
    pub tied: bool,
    /// The seed.
    pub seed: u64,
}

impl Checkpoint for MadeUp {
    /// Norms are ones.
    fn tensor(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, Error> {
        let (count, inputs) = (shape.iter().product(), shape.last().copied().unwrap_or(1));
        if name.ends_with("norm.weight") {
            return Ok(vec![1.0; count]);
        }
        let residual = name.ends_with("attn_output.weight") || name.ends_with("ffn_down.weight");
        let depth = if residual { 2.0 * self.config.layers as f32 } else { 1.0 };
        // FNV-1a of the name
        let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        let seed = name.bytes().fold(0xcbf2_9ce4_8422_2325 ^ self.seed, hash);
        Ok(normal(count, seed, (inputs as f32 * depth).sqrt().recip()))
    }

    fn has(&self, name: &str) -> bool {
        name != "output.weight" || !self.tied
    }
}
