//! The shapes of known models.

use attn::Heads;

use super::config::LlamaConfig;

impl LlamaConfig {
    /// SmolLM2-135M. Its head is tied to its embedding.
    pub fn smollm2_135m() -> Self {
        LlamaConfig {
            layers: 30,
            width: 576,
            heads: Heads { qo: 9, kv: 3, head_dim: 64 },
            ffn: 1536,
            vocab: 49_152,
            context: 8192,
            norm_eps: 1e-5,
            rope_theta: 100_000.0,
        }
    }

    /// Llama-3.1-8B (arXiv 2407.21783), without the scaling of its low frequencies. Its head has weights of its own.
    pub fn llama3_8b() -> Self {
        LlamaConfig {
            layers: 32,
            width: 4096,
            heads: Heads { qo: 32, kv: 8, head_dim: 128 },
            ffn: 14_336,
            vocab: 128_256,
            context: 131_072,
            norm_eps: 1e-5,
            rope_theta: 500_000.0,
        }
    }

    /// A model of three layers, for tests.
    pub fn tiny() -> Self {
        LlamaConfig {
            layers: 3,
            width: 32,
            heads: Heads { qo: 4, kv: 2, head_dim: 16 },
            ffn: 64,
            vocab: 96,
            context: 256,
            norm_eps: 1e-5,
            rope_theta: 10_000.0,
        }
    }

    /// Weights that a step reads: the blocks, the norms and the head. It reads one row of the embedding for a token.
    pub fn weights_of_step(&self) -> usize {
        let attention = self.width * (self.qkv_width() + self.q_width());
        let block = attention + 3 * self.width * self.ffn + 2 * self.width;
        self.layers * block + self.width + self.vocab * self.width
    }

    /// Elements of the keys and values of a token, in all layers.
    pub fn cache_of_token(&self) -> usize {
        self.layers * 2 * self.kv_width()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shapes_have_the_weights_of_their_names() {
        let (small, large) = (LlamaConfig::smollm2_135m(), LlamaConfig::llama3_8b());
        // the tied head is the embedding
        assert_eq!(small.weights_of_step(), 134_515_008);
        assert_eq!(large.weights_of_step() + large.vocab * large.width, 8_030_261_248);
        assert_eq!(2 * large.cache_of_token(), 131_072); // bytes
    }
}
