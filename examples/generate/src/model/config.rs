//! The shape of a Llama.

use attn::Heads;

/// The shape of a model of the Llama family (arXiv 2302.13971; grouped queries as in arXiv 2307.09288).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LlamaConfig {
    /// Transformer blocks.
    pub layers: usize,
    /// Elements of a token between blocks.
    pub width: usize,
    /// Heads of queries, heads of keys and values, and their dimension.
    pub heads: Heads,
    /// Elements of a token inside the feed-forward network.
    pub ffn: usize,
    /// Tokens of the vocabulary.
    pub vocab: usize,
    /// Tokens of a sequence.
    pub context: usize,
    /// Added to the mean square of RMSNorm.
    pub norm_eps: f32,
    /// Base of the rotary frequencies. Pairs are neighbours, which is the row order of llama.cpp's files.
    pub rope_theta: f32,
}

impl LlamaConfig {
    /// The rotary embedding, as an expression.
    pub(super) fn rope(&self) -> String {
        format!("rope(theta={}, interleaved=true)", self.rope_theta)
    }

    /// Elements of the queries of a token.
    pub fn q_width(&self) -> usize {
        self.heads.qo as usize * self.heads.head_dim as usize
    }

    /// Elements of the keys, or of the values, of a token.
    pub fn kv_width(&self) -> usize {
        self.heads.kv as usize * self.heads.head_dim as usize
    }

    /// Elements of queries, keys and values of a token together.
    pub fn qkv_width(&self) -> usize {
        self.q_width() + 2 * self.kv_width()
    }
}
