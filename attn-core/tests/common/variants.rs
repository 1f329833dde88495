//! Variants of the tests, and a registry of them.

#![allow(dead_code)] // each test uses some

use attn::lang::{AttentionVariant, Dims, LogitIndex, Normalizer, RowIndex, Tensor1, Tensor2};
use attn::{Registry, VariantParams, attention_variant};

/// Keys up to the query.
#[derive(Clone, Copy, VariantParams)]
pub(crate) struct Causal;

#[attention_variant(name = "causal")]
impl AttentionVariant for Causal {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        at.kv_pos <= at.qo_pos
    }
}

/// Keys at even positions; says nothing of tiles.
#[derive(Clone, Copy, VariantParams)]
pub(crate) struct Even;

#[attention_variant(name = "even")]
impl AttentionVariant for Even {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        at.kv_pos % 2 == 0
    }
}

#[derive(Clone, Copy, VariantParams)]
pub(crate) struct SoftCap {
    /// The bound.
    #[require(cap > 0.0)]
    pub(crate) cap: f32,
}

#[attention_variant(name = "soft_cap")]
impl AttentionVariant for SoftCap {
    fn logits_transform(&self, logit: f32, _at: LogitIndex) -> f32 {
        self.cap * (logit / self.cap).tanh()
    }
}

/// One parameter of every type.
#[derive(Clone, VariantParams)]
pub(crate) struct Everything {
    #[default(0.5)]
    pub(crate) rate: f32,
    #[default(-4)]
    #[require(offset < 100)]
    pub(crate) offset: i32,
    #[default(7)]
    pub(crate) seed: u32,
    #[default(true)]
    pub(crate) on: bool,
    #[shape(qo_heads)]
    #[default(|p: &Self, dims: &Dims| vec![p.rate; dims.qo_heads.unwrap_or(0) as usize])]
    #[require(bias[0] < 1000.0)]
    pub(crate) bias: Tensor1<f32>,
    #[shape(kv_heads, 2 * seed + 1)]
    #[default(|p, dims| vec![p.offset; dims.kv_heads.unwrap_or(0) as usize * (2 * p.seed + 1) as usize])]
    pub(crate) table: Tensor2<i32>,
    #[shape(batch)]
    #[default(|_, dims| (0..dims.batch.unwrap_or(0) as u32).collect())]
    pub(crate) starts: Tensor1<u32>,
}

#[attention_variant(name = "everything")]
impl AttentionVariant for Everything {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        let near = self.table[[at.kv_head, at.kv_pos + self.offset]] as f32;
        let shifted = logit * self.rate + self.bias[at.qo_head] + near;
        if self.on && self.starts[at.batch] < self.seed { shifted } else { logit }
    }
}

#[derive(Clone, VariantParams)]
pub(crate) struct Sink {
    #[shape(qo_heads)]
    pub(crate) logits: Tensor1<f32>,
}

#[attention_variant(name = "sink")]
impl AttentionVariant for Sink {
    fn sink_logit(&self, at: RowIndex) -> f32 {
        self.logits[at.qo_head]
    }
}

#[derive(Clone, Copy, VariantParams)]
pub(crate) struct Relu;

#[attention_variant(name = "relu")]
impl AttentionVariant for Relu {
    const NORMALIZER: Normalizer = Normalizer::Plain { divide: true };
    fn weight(&self, logit: f32, _row_max: f32, _at: LogitIndex) -> f32 {
        logit.max(0.0)
    }
}

/// The variants above.
pub(crate) fn registry() -> Registry {
    let mut registry = Registry::empty();
    registry.register_all(attn::variants![Causal, Even, SoftCap, Everything, Sink, Relu]).expect("names differ");
    registry
}
