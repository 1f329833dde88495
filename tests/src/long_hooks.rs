//! Variants with long hooks, as users write them: loops over tables, gathers, integers of 64 bits, helpers that call
//! helpers. Kernels have another text for them.

use attn_core::lang::{
    AttentionVariant, KvIndex, LogitIndex, Normalizer, Row, RowIndex, RowState, Tensor1, Tensor2, Tensor3, Tensor4,
    VariantDesc,
};
use attn_core::{VariantParams, attention_variant, device_fn};
use half::f16;

/// FIRE: a small network of the distance's logarithm (arXiv 2310.04418).
#[derive(Clone, Debug, VariantParams)]
pub struct Fire {
    /// Width of the hidden layer.
    #[default(32)]
    #[require(hidden >= 1 && hidden <= 256)]
    pub hidden: i32,
    /// Weights of the hidden layer.
    #[shape(hidden)]
    pub in_w: Tensor1<f32>,
    /// Offsets of the hidden layer.
    #[shape(hidden)]
    pub in_b: Tensor1<f32>,
    /// Weights of the output.
    #[shape(qo_heads, hidden)]
    pub out_w: Tensor2<f32>,
}

#[attention_variant(name = "long_fire")]
impl AttentionVariant for Fire {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        let scale = (0.1 * (at.qo_pos as f32).max(512.0)).ln_1p() + 1e-6;
        let x = (0.1 * (at.qo_pos - at.kv_pos).abs() as f32).ln_1p() / scale;
        let mut bias = 0.0;
        for i in 0..self.hidden {
            bias += self.out_w[[at.qo_head, i]] * (self.in_w[i] * x + self.in_b[i]).max(0.0);
        }
        logit + bias
    }
}

/// The mean over the edges of a path (arXiv 2106.05234).
#[derive(Clone, Debug, VariantParams)]
pub struct PathBias {
    /// Nodes of the graph.
    #[default(64)]
    #[require(nodes >= 1)]
    pub nodes: i32,
    /// Edges of a path.
    #[default(5)]
    #[require(hops >= 1)]
    pub hops: i32,
    /// The edges between two nodes.
    #[shape(batch, nodes, nodes, hops)]
    pub edge: Tensor4<i32>,
    /// The bias of an edge.
    #[shape(qo_heads, hops, 16)]
    pub bias: Tensor3<f16>,
}

#[attention_variant(name = "long_path")]
impl AttentionVariant for PathBias {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        let mut sum = 0.0;
        for n in 0..self.hops {
            sum += self.bias[[at.qo_head, n, self.edge[[at.batch, at.qo_row, at.kv_pos, n]]]];
        }
        logit + sum / self.hops as f32
    }
}

/// A bias that is a hash of both positions.
#[derive(Clone, Copy, Debug, VariantParams)]
pub struct HashBias {
    /// Changes all of them.
    #[default(77)]
    pub seed: i32,
}

#[attention_variant(name = "long_hash")]
impl AttentionVariant for HashBias {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        let mut h = (self.seed ^ at.qo_pos) as u32;
        let mut g = at.kv_pos as u32;
        for i in 0..8 {
            h = h ^ (g << 5) ^ (g >> 3);
            h = h.wrapping_mul(2654435761).wrapping_add(i as u32);
            g ^= h >> 7;
            g = g.wrapping_mul(2246822519).wrapping_add(h);
            g = g % 1000003 + (h / 97);
            h = h % 65521 + (g / 13);
            if h & 1 == 1 {
                g ^= 0x9e3779b9;
            } else {
                h = h.wrapping_add(0x7f4a7c15);
            }
        }
        let (a, b) = ((h % 1024) as f32, (g % 1024) as f32);
        let c = (h / 7 % 31) as i32 - (g / 11 % 29) as i32;
        let d = ((h as u64).wrapping_mul(g as u64) % 1000003) as f32;
        let e = (c * 3 + at.kv_pos % 17 - at.qo_pos % 19) as f32;
        logit + 0.00001 * (a - b) + 0.0001 * d.sqrt() + 0.001 * e
    }
}

/// Gathers in nested loops: each index is an element of a table.
#[derive(Clone, Debug, VariantParams)]
pub struct Gathers {
    /// Columns.
    #[default(4)]
    #[require(n >= 1 && n <= 16)]
    pub n: i32,
    /// Rows.
    #[default(16)]
    #[require(m >= 1)]
    pub m: i32,
    /// Rows of the other tables.
    #[shape(m, n)]
    pub next: Tensor2<i32>,
    /// Values.
    #[shape(m, n)]
    pub value: Tensor2<f32>,
    /// The weight of a head.
    #[shape(qo_heads, m)]
    pub weight: Tensor2<f16>,
}

#[attention_variant(name = "long_gathers")]
impl AttentionVariant for Gathers {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        let mut sum = 0.0;
        for i in 0..self.n {
            let x = self.next[[at.qo_pos % self.m, i]].wrapping_abs() % self.m;
            for j in 0..self.n {
                let y = self.next[[at.kv_pos % self.m, j]].wrapping_abs() % self.m;
                let z = self.next[[(x + y) % self.m, (i + j) % self.n]].wrapping_abs() % self.m;
                sum += self.value[[z, j]] * self.value[[x, i]];
                if z > x {
                    sum *= 0.5;
                }
            }
        }
        logit + 0.1 * sum * self.weight[[at.qo_head, at.kv_pos % self.m]]
    }
}

/// A hash of two numbers below 2^30, itself below 4,000.
#[device_fn]
fn mix(a: i32, b: i32) -> i32 {
    let x = (a ^ (b >> 3)) % 8191;
    let y = (b ^ (a >> 2)) % 4093;
    x / 3 + y / 5 - (x.wrapping_mul(y)) % 127
}

/// A hash of three numbers.
#[device_fn]
fn mix_three(a: i32, b: i32, c: i32) -> i32 {
    mix(mix(a, b), c) + mix(b, mix(c, a))
}

/// A wave of two angles.
#[device_fn]
fn wave(a: i32, b: i32) -> f32 {
    (0.01 * a as f32).sin() * (0.02 * b as f32).cos() + (0.001 * (a - b) as f32).tanh()
}

/// A transform and a mask of helpers that call helpers.
#[derive(Clone, Copy, Debug, VariantParams)]
pub struct Helpers {
    /// Changes all of them.
    #[default(3)]
    pub k: i32,
}

#[attention_variant(name = "long_helpers")]
impl AttentionVariant for Helpers {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        let a = mix_three(at.qo_pos, at.kv_pos, self.k);
        let b = mix_three(a, at.kv_pos, at.qo_head);
        let c = mix_three(b, a, at.qo_pos);
        let x = wave(a, b) + wave(b, c) * wave(c, a);
        logit * (1.0 + 0.1 * x) + 0.001 * c as f32
    }

    fn logits_mask(&self, at: LogitIndex) -> bool {
        let a = mix_three(at.qo_pos, at.kv_pos, self.k);
        let b = mix_three(at.kv_pos, a, at.qo_pos);
        (a + b) % 5 != 0 && at.kv_pos <= at.qo_pos
    }
}

/// A weight with a loop of cosines.
#[derive(Clone, Copy, Debug, VariantParams)]
pub struct LongWeight {
    /// The frequency.
    #[default(0.5)]
    pub k: f32,
}

#[attention_variant(name = "long_weight")]
impl AttentionVariant for LongWeight {
    const NORMALIZER: Normalizer = Normalizer::MaxScaled;

    fn weight(&self, logit: f32, row_max: f32, at: LogitIndex) -> f32 {
        let mut x = (logit - row_max).exp();
        for i in 0..6 {
            let h = mix(at.qo_pos + i, at.kv_pos);
            x *= 0.9 + 0.1 * (self.k * h as f32).cos();
        }
        x
    }
}

/// Long hooks of every kind, with integers of 64 bits.
#[derive(Clone, Copy, Debug, VariantParams)]
pub struct EveryHook {
    /// Changes all of them.
    #[default(9)]
    pub k: i32,
}

#[attention_variant(name = "long_every")]
impl AttentionVariant for EveryHook {
    fn query_transform<R: Row>(&self, q: &mut R, at: RowIndex) {
        q.map(|d, x| x * (1.0 + 0.001 * (mix_three(d, at.qo_pos, at.qo_head) % 100) as f32));
    }

    fn key_transform<R: Row>(&self, k: &mut R, at: KvIndex) {
        k.map(|d, x| x * (1.0 + 0.001 * (mix_three(d, at.kv_pos, at.kv_head) % 100) as f32));
    }

    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        let mut s = (at.qo_pos as u64).wrapping_mul(6364136223846793005).wrapping_add(at.kv_pos as u64);
        for i in 0..4 {
            s = s.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            s ^= s >> 33;
            s = s % 1000000007 + (s / 12345);
            s = s ^ (s << 13) ^ (i as u64);
        }
        let t = (s % 4096) as i32;
        let u = (s / 4096 % 4096) as i32;
        let v = mix_three(t, u, at.kv_pos);
        let w = (at.qo_pos as i64 * at.kv_pos as i64 % (at.kv_len as i64 + 1)) as i32;
        logit + 0.0001 * (v % 1000) as f32 + 0.001 * (w % 100) as f32
    }

    fn logits_mask(&self, at: LogitIndex) -> bool {
        let mut count = 0;
        for i in 0..8 {
            if mix(at.qo_pos + i, at.kv_pos - i) % 3 == 0 {
                count += 1;
            }
        }
        count < 6
    }

    fn sink_logit(&self, at: RowIndex) -> f32 {
        (mix_three(at.qo_pos, at.qo_head, self.k) % 100) as f32 * 0.01
    }

    fn output_transform<R: Row>(&self, o: &mut R, _state: RowState, at: RowIndex) {
        o.map(|d, x| x * (1.0 + 0.001 * (mix_three(d, at.qo_pos, at.qo_head) % 100) as f32));
    }
}

/// All of them.
pub fn variants() -> &'static [&'static VariantDesc] {
    attn_core::variants![Fire, PathBias, HashBias, Gathers, Helpers, LongWeight, EveryHook]
}
