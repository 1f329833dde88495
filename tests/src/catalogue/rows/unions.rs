//! Rows 72 to 74: unions, whose branches transform disjoint sets of keys within one softmax.

use attn_core::lang::{AttentionVariant, Dims, KvIndex, LogitIndex, Row, RowIndex, Tensor1};
use attn_core::{VariantParams, attention_variant, device_fn};

use super::rotary::Rotation;
use crate::catalogue::{Entry, Instance};
use crate::reference::{At, Formula, Shape, causal};

pub(super) fn entries() -> Vec<Entry> {
    vec![
        Entry::new(72, "cascade: a shared prefix, then the rest", cascade),
        Entry::new(73, "dual chunk attention", dual_chunk),
        Entry::new(74, "ReRoPE", rerope),
        Entry::new(74, "Self-Extend", self_extend),
    ]
}

/// The first keys of a request: `kv_pos < count`.
#[derive(Clone, Copy, Debug, PartialEq, VariantParams)]
pub struct FirstKeys {
    /// Number of keys.
    pub count: i32,
}

#[attention_variant(name = "first_keys")]
impl AttentionVariant for FirstKeys {
    fn logits_mask(&self, at: LogitIndex) -> bool {
        at.kv_pos < self.count
    }
}

fn cascade(_: &Shape) -> Instance {
    Instance::new("causal + union(first_keys(count=6), full)", Formula::masked(causal))
}

/// `(cosine, sine)` of an angle.
#[device_fn]
fn cos_sin(angle: f32) -> (f32, f32) {
    (angle.cos(), angle.sin())
}

/// The frequency of each pair, for a base of 10000.
fn frequencies(dims: &Dims) -> Vec<f32> {
    let dim = dims.head_dim.unwrap_or(0);
    (0..dim / 2).map(|i| 10_000f64.powf(-2.0 * i as f64 / dim as f64) as f32).collect()
}

/// Rotates keys by their positions within chunks: `kv_pos % chunk`.
#[derive(Clone, Debug, PartialEq, VariantParams)]
pub struct ChunkKeys {
    /// Number of keys of a chunk.
    #[require(chunk >= 1)]
    pub chunk: i32,
    /// Frequency of each pair.
    #[shape(head_dim / 2)]
    #[default(|_: &ChunkKeys, dims: &Dims| frequencies(dims))]
    pub inv_freq: Tensor1<f32>,
}

#[attention_variant(name = "chunk_keys")]
impl AttentionVariant for ChunkKeys {
    fn key_transform<R: Row>(&self, k: &mut R, at: KvIndex) {
        let pos = (at.kv_pos % self.chunk) as f32;
        k.rotate_half(k.dim(), |i| cos_sin(pos * self.inv_freq[i]));
    }
}

/// A branch of dual chunk attention (arXiv 2402.17463): queries against the keys of their own chunk (`back` = 0), of
/// the chunk before (1), or of all earlier chunks (2).
///
/// A query is rotated by its position within its chunk; with `back` = 1 by one chunk more, but at most `limit`; with
/// `back` = 2 by `min(2 chunk - 1, limit)`.
#[derive(Clone, Debug, PartialEq, VariantParams)]
pub struct ChunkQueries {
    /// Number of keys of a chunk.
    #[require(chunk >= 1)]
    pub chunk: i32,
    /// Largest position of a query.
    #[require(limit >= chunk)]
    pub limit: i32,
    /// Distance in chunks: 0, 1, or 2 for all earlier ones.
    #[require(back >= 0 && back <= 2)]
    pub back: i32,
    /// Frequency of each pair.
    #[shape(head_dim / 2)]
    #[default(|_: &ChunkQueries, dims: &Dims| frequencies(dims))]
    pub inv_freq: Tensor1<f32>,
}

#[attention_variant(name = "chunk_queries")]
impl AttentionVariant for ChunkQueries {
    fn query_transform<R: Row>(&self, q: &mut R, at: RowIndex) {
        let within = if self.back == 2 { self.chunk - 1 } else { at.qo_pos % self.chunk };
        let pos = (within + self.back.min(1) * self.chunk).min(self.limit) as f32;
        q.rotate_half(q.dim(), |i| cos_sin(pos * self.inv_freq[i]));
    }

    fn logits_mask(&self, at: LogitIndex) -> bool {
        (at.qo_pos / self.chunk - at.kv_pos / self.chunk).min(2) == self.back
    }
}

/// The product of a query and a key, each rotated by its position.
fn product(q: &[f64], k: &[f64], q_pos: i64, k_pos: i64) -> f64 {
    let rotation = Rotation::new(q.len() as i64, |x| 10_000f64.powf(-x));
    let (mut q, mut k) = (q.to_vec(), k.to_vec());
    rotation.apply(&mut q, q_pos);
    rotation.apply(&mut k, k_pos);
    q.iter().zip(k).map(|(a, b)| a * b).sum()
}

/// Dual chunk attention with chunks of 8 keys and positions up to 12.
fn dual_chunk(_: &Shape) -> Instance {
    let branch = |back: i64| format!("chunk_queries(chunk=8, limit=12, back={back})");
    let expr = format!("causal + chunk_keys(chunk=8) + union({}, {}, {})", branch(0), branch(1), branch(2));
    let q_pos = |at: &At| match at.i / 8 - at.j / 8 {
        0 => at.i % 8,
        1 => (at.i % 8 + 8).min(12),
        _ => 12,
    };
    Instance::new(expr, Formula::masked(causal).score(move |q, k, at| product(q, k, q_pos(at), at.j % 8)))
}

/// Self-Extend (arXiv 2401.01325): rotary embedding with grouped positions, for the keys beyond a window.
///
/// Queries are at `qo_pos / group + window - window / group`, keys at `kv_pos / group`. With a group larger than any
/// position this is ReRoPE.
#[derive(Clone, Debug, PartialEq, VariantParams)]
pub struct GroupedRope {
    /// Number of positions of a group.
    #[require(group >= 1)]
    pub group: i32,
    /// Number of keys with ungrouped positions.
    #[require(window >= 1)]
    pub window: i32,
    /// Frequency of each pair.
    #[shape(head_dim / 2)]
    #[default(|_: &GroupedRope, dims: &Dims| frequencies(dims))]
    pub inv_freq: Tensor1<f32>,
}

#[attention_variant(name = "grouped_rope")]
impl AttentionVariant for GroupedRope {
    fn query_transform<R: Row>(&self, q: &mut R, at: RowIndex) {
        let pos = (at.qo_pos / self.group + self.window - self.window / self.group) as f32;
        q.rotate_half(q.dim(), |i| cos_sin(pos * self.inv_freq[i]));
    }

    fn key_transform<R: Row>(&self, k: &mut R, at: KvIndex) {
        let pos = (at.kv_pos / self.group) as f32;
        k.rotate_half(k.dim(), |i| cos_sin(pos * self.inv_freq[i]));
    }
}

fn rerope(_: &Shape) -> Instance {
    let far = "grouped_rope(group=1000000, window=9)";
    let expr = format!("causal + union(sliding_window(window=9) + rope, {far})");
    let score = |q: &[f64], k: &[f64], at: &At| product(q, k, (at.i - at.j).min(9), 0);
    Instance::new(expr, Formula::masked(causal).score(score))
}

fn self_extend(_: &Shape) -> Instance {
    let expr = "causal + union(sliding_window(window=10) + rope, grouped_rope(group=4, window=10))";
    let score = |q: &[f64], k: &[f64], at: &At| match at.i - at.j < 10 {
        true => product(q, k, at.i, at.j),
        false => product(q, k, at.i / 4 + 10 - 2, at.j / 4),
    };
    Instance::new(expr, Formula::masked(causal).score(score))
}
