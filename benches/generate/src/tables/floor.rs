//! The least time of a step, by what it reads and computes.

use super::TableModel;

/// Bytes per second from memory, and operations per second in 16 bits, as an H200 reached them.
const BANDWIDTH: f64 = 4.4e12;
const RATE: f64 = 790e12;

/// What a step reads and computes beside its weights.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Floor {
    /// New tokens of the step.
    pub tokens: f64,
    /// Rows of logits.
    pub rows: f64,
    /// Bytes of keys and values, moved once.
    pub cache: f64,
    /// Pairs of a query and a key, in one head and layer.
    pub pairs: f64,
}

impl Floor {
    /// A step of decoding that moves this many bytes of the cache.
    pub fn decode(requests: usize, cache: f64) -> Self {
        Floor { tokens: requests as f64, rows: requests as f64, cache, pairs: 0.0 }
    }

    /// Microseconds. Products and attention follow each other, and each takes its bytes or its operations, whichever
    /// takes longer.
    pub fn us(&self, model: &TableModel) -> f64 {
        let config = &model.config;
        let head = (config.vocab * config.width) as f64;
        let blocks = config.weights_of_step() as f64 - head;
        let products = |weights: f64, rows: f64| (2.0 * weights / BANDWIDTH).max(2.0 * weights * rows / RATE);
        let heads = f64::from(config.heads.qo * config.heads.head_dim) * config.layers as f64;
        let attention = (self.cache / BANDWIDTH).max(4.0 * heads * self.pairs / RATE);
        1e6 * (products(blocks, self.tokens) + products(head, self.rows) + attention)
    }
}
