//! Synthetic values for tests of the public interface.

use attn_core::random;

/// Deterministic values from -2 to 2.
pub fn values(count: usize, seed: u32) -> Vec<f32> {
    (0..count as u32).map(|i| (random::bits(seed, 0, i, 0) >> 8) as f32 / 4_194_304.0 - 2.0).collect()
}
