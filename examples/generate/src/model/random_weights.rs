//! Made-up weights: random numbers in the place of a file, for benchmarks and tests. The time of a step does not depend
//! on them.

mod fill;
mod normal;

pub use fill::Fill;

use attn::DeviceBuffer;

use super::{
    config::LlamaConfig,
    math::{Math, Matrix},
    weights::{Checkpoint, LayerWeights, LlamaWeights},
};
use crate::Error;
use normal::normal;

/// A checkpoint of random numbers. The same seed gives the same numbers on every device.
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

impl MadeUp {
    /// The key of a tensor's numbers, and their standard deviation; `None` for norms, which are ones.
    fn distribution(&self, name: &str, inputs: usize) -> Option<(u64, f32)> {
        if name.ends_with("norm.weight") {
            return None;
        }
        let residual = name.ends_with("attn_output.weight") || name.ends_with("ffn_down.weight");
        let depth = if residual { 2.0 * self.config.layers as f32 } else { 1.0 };
        // FNV-1a of the name
        let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        let key = name.bytes().fold(0xcbf2_9ce4_8422_2325 ^ self.seed, hash);
        Some((key, (inputs as f32 * depth).sqrt().recip()))
    }

    /// The weights on a device, made there.
    ///
    /// # Errors
    ///
    /// Out of memory; neither a kernel nor a compiler.
    pub fn load(&self, math: &dyn Math) -> Result<LlamaWeights, Error> {
        let (config, fill) = (&self.config, Fill::new(math)?);
        let (width, ffn, q, kv) = (config.width, config.ffn, config.q_width(), config.kv_width());
        // tensors of the same inputs are one matrix
        let matrix = |tensors: &[(String, usize)], inputs: usize| -> Result<Matrix, Error> {
            let outputs = tensors.iter().map(|(_, outputs)| outputs).sum();
            let mut values = math.buffer(outputs * inputs)?;
            let mut first = 0;
            for (name, outputs) in tensors {
                let (count, distribution) = (outputs * inputs, self.distribution(name, inputs));
                if let Some((key, deviation)) = distribution {
                    fill.normal(math, &mut values, first..first + count, key, deviation)?;
                }
                first += count;
            }
            Ok(Matrix { values, outputs, inputs })
        };
        let norm = || -> Result<DeviceBuffer, Error> { math.weights(&vec![1.0; width]) };
        let of_vocab = |name: &str| matrix(&[(name.to_owned(), config.vocab)], width);
        let layer = |layer: usize| -> Result<LayerWeights, Error> {
            let tensor = |name: &str, outputs: usize| (format!("blk.{layer}.{name}.weight"), outputs);
            Ok(LayerWeights {
                attn_norm: norm()?,
                qkv: matrix(&[tensor("attn_q", q), tensor("attn_k", kv), tensor("attn_v", kv)], width)?,
                output: matrix(&[tensor("attn_output", width)], q)?,
                ffn_norm: norm()?,
                gate_up: matrix(&[tensor("ffn_gate", ffn), tensor("ffn_up", ffn)], width)?,
                down: matrix(&[tensor("ffn_down", width)], ffn)?,
            })
        };
        Ok(LlamaWeights {
            embedding: of_vocab("token_embd.weight")?,
            layers: (0..config.layers).map(layer).collect::<Result<_, _>>()?,
            norm: norm()?,
            head: if self.tied { None } else { Some(of_vocab("output.weight")?) },
        })
    }
}

impl Checkpoint for MadeUp {
    fn tensor(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, Error> {
        let (count, inputs) = (shape.iter().product(), shape.last().copied().unwrap_or(1));
        Ok(match self.distribution(name, inputs) {
            None => vec![1.0; count],
            Some((key, deviation)) => (0..count as u64).map(|index| normal(key, index, deviation)).collect(),
        })
    }

    fn has(&self, name: &str) -> bool {
        name != "output.weight" || !self.tied
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_and_seeds_have_numbers_of_their_own() {
        let random_weights = |seed| MadeUp { config: LlamaConfig::tiny(), tied: true, seed };
        let tensor = |seed, name| random_weights(seed).tensor(name, &[4, 8]).expect("made up");
        let first = tensor(1, "blk.0.attn_q.weight");
        assert_eq!(first, tensor(1, "blk.0.attn_q.weight"));
        assert_ne!(first, tensor(2, "blk.0.attn_q.weight"));
        assert_ne!(first, tensor(1, "blk.1.attn_q.weight"));
        assert_eq!(tensor(1, "output_norm.weight"), [1.0; 32]);
        assert!(!random_weights(1).has("output.weight") && random_weights(1).has("token_embd.weight"));
    }
}
