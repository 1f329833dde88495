//! Rows 29 to 35 and 40: biases and transforms of logits by position.

use attn_core::lang::{AttentionVariant, LogitIndex, Tensor2, Tensor3};
use attn_core::{VariantParams, attention_variant};
use half::{bf16, f16};

use super::table::Table;
use crate::catalogue::cpu_cases::short;
use crate::catalogue::{Entry, Instance};
use crate::reference::{At, Formula, Shape, causal};

pub(super) fn entries() -> Vec<Entry> {
    let pairs = |name, make| Entry { cases: short, ..Entry::new(35, name, make) };
    vec![
        Entry::new(29, "soft cap", soft_cap),
        Entry::new(30, "ALiBi", alibi),
        Entry::new(31, "T5 bias of an encoder", t5_encoder),
        Entry::new(31, "T5 bias of a decoder", t5_decoder),
        Entry::new(32, "learnt relative bias", relative_bias),
        Entry::new(32, "Sandwich", sandwich),
        Entry::new(32, "Swin bias of a grid", grid_bias),
        pairs("pair bias", pair_bias),
        pairs("pair bias, of 32 bits", wide_pair_bias),
        pairs("Evoformer: pair bias and gate", evoformer),
        pairs("bias of a head and key", key_bias),
        Entry::new(40, "MLA rope as an inner product", latent_rope),
    ]
}

fn soft_cap(_: &Shape) -> Instance {
    let formula = Formula::masked(causal).logit(|z, _| 1.5 * (z / 1.5).tanh());
    Instance::new("causal + soft_cap(cap=1.5)", formula)
}

fn alibi(shape: &Shape) -> Instance {
    let heads = shape.qo_heads;
    let below = (1..=heads).rev().find(|n| n & (n - 1) == 0).expect("one is a power of two");
    let slope = move |h: i64| match h < below {
        true => 2f64.powf(-8.0 * (h + 1) as f64 / below as f64),
        false => 2f64.powf(-4.0 * (2 * (h - below) + 1) as f64 / below as f64),
    };
    Instance::new("causal + alibi", Formula::masked(causal).logit(move |z, at| z + slope(at.h) * (at.j - at.i) as f64))
}

/// The T5 bucket of a distance, found by counting the distances at which buckets begin.
fn bucket(distance: i64, buckets: i64, max_distance: i64) -> i64 {
    let exact = buckets / 2;
    let ratio = max_distance as f64 / exact as f64;
    let begins = |k: i64| exact as f64 * ratio.powf(k as f64 / (buckets - exact) as f64) - 1e-9;
    match distance < exact {
        true => distance,
        false => exact + (1..buckets - exact).filter(|k| distance as f64 >= begins(*k)).count() as i64,
    }
}

fn t5_encoder(shape: &Shape) -> Instance {
    let weights = Table::waves(1, &[32, shape.qo_heads]);
    let expr = format!("t5_bias(weights={weights})");
    let ahead = |at: &At| if at.j > at.i { 16 } else { 0 };
    let formula =
        Formula::plain().logit(move |z, at| z + weights.at(&[ahead(at) + bucket((at.j - at.i).abs(), 16, 128), at.h]));
    Instance::new(expr, formula)
}

fn t5_decoder(shape: &Shape) -> Instance {
    let weights = Table::waves(2, &[12, shape.qo_heads]);
    let expr = format!("causal + t5_bias(buckets=12, max_distance=40, bidirectional=false, weights={weights})");
    let formula = Formula::masked(causal).logit(move |z, at| z + weights.at(&[bucket(at.i - at.j, 12, 40), at.h]));
    Instance::new(expr, formula)
}

fn relative_bias(shape: &Shape) -> Instance {
    let table = Table::waves(3, &[shape.qo_heads, 2 * 20 + 1]);
    let expr = format!("relative_bias(max_distance=20, table={table})");
    let formula = Formula::plain().logit(move |z, at| z + table.at(&[at.h, (at.j - at.i).clamp(-20, 20) + 20]));
    Instance::new(expr, formula)
}

/// Sandwich bias: a sum of cosines of the distance, steeper in the first heads.
fn sandwich(shape: &Shape) -> Instance {
    let bias = |h: i64, distance: i64| -> f64 {
        let cosines = (0..8).map(|m| (distance as f64 / 10_000f64.powf(f64::from(m) / 8.0)).cos());
        (cosines.sum::<f64>() - 8.0) / (h + 1) as f64
    };
    let table = Table::new(&[shape.qo_heads, 2 * 30 + 1], |i| bias(i[0], i[1] - 30));
    let expr = format!("causal + relative_bias(max_distance=30, table={table})");
    Instance::new(expr, Formula::masked(causal).logit(move |z, at| z + bias(at.h, (at.i - at.j).min(30))))
}

/// Swin's relative bias: positions are cells of a grid, and each pair of offsets has its own bias.
///
/// `logit + table[qo_head, y_q - y_k + height - 1, x_q - x_k + width - 1]` (arXiv 2103.14030).
#[derive(Clone, Debug, PartialEq, VariantParams)]
pub struct GridBias {
    /// Width of the grid, in positions.
    #[require(width >= 1)]
    pub width: i32,
    /// Height of the grid, in lines.
    #[require(height >= 1)]
    pub height: i32,
    /// Added to logits, in natural-log units.
    #[shape(qo_heads, 2 * height - 1, 2 * width - 1)]
    pub table: Tensor3<f16>,
}

#[attention_variant(name = "grid_bias")]
impl AttentionVariant for GridBias {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        let (qy, qx) = (at.qo_pos / self.width, at.qo_pos % self.width);
        let (ky, kx) = (at.kv_pos / self.width, at.kv_pos % self.width);
        logit + self.table[[at.qo_head, qy - ky + self.height - 1, qx - kx + self.width - 1]]
    }
}

fn grid_bias(shape: &Shape) -> Instance {
    let height = shape.lens.iter().map(|(_, kv)| kv).max().expect("requests") / 8 + 1;
    let table = Table::waves(4, &[shape.qo_heads, 2 * height - 1, 15]);
    let expr = format!("grid_bias(width=8, height={height}, table={table})");
    let formula = Formula::plain()
        .logit(move |z, at| z + table.at(&[at.h, at.i / 8 - at.j / 8 + height - 1, at.i % 8 - at.j % 8 + 7]));
    Instance::new(expr, formula)
}

/// A pair bias for the queries and keys of the longest request.
fn pairs(shape: &Shape) -> (Table, String) {
    let rows = shape.lens.iter().map(|(qo, _)| *qo).max().expect("requests");
    let columns = shape.lens.iter().map(|(_, kv)| *kv).max().expect("requests");
    let bias = Table::waves(5, &[shape.batch(), shape.qo_heads, rows, columns]);
    let expr = format!("pair_bias(rows={rows}, columns={columns}, bias={bias})");
    (bias, expr)
}

fn pair_bias(shape: &Shape) -> Instance {
    let (bias, expr) = pairs(shape);
    Instance::new(expr, Formula::plain().logit(move |z, at| z + bias.at(&[at.b, at.h, at.row, at.j])))
}

/// An f32 pair bias that all requests share: `logit + bias[qo_head, qo_row, kv_pos]`.
#[derive(Clone, Debug, PartialEq, VariantParams)]
pub struct WidePairBias {
    /// Number of rows: queries.
    #[require(rows >= 1)]
    pub rows: i32,
    /// Number of columns: keys.
    #[require(columns >= 1)]
    pub columns: i32,
    /// Added to logits, in natural-log units.
    #[shape(qo_heads, rows, columns)]
    pub bias: Tensor3<f32>,
}

#[attention_variant(name = "wide_pair_bias")]
impl AttentionVariant for WidePairBias {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        logit + self.bias[[at.qo_head, at.qo_row, at.kv_pos]]
    }
}

fn wide_pair_bias(shape: &Shape) -> Instance {
    let rows = shape.lens.iter().map(|(qo, _)| *qo).max().expect("requests");
    let columns = shape.lens.iter().map(|(_, kv)| *kv).max().expect("requests");
    let bias = Table::waves(9, &[shape.qo_heads, rows, columns]);
    let expr = format!("causal + wide_pair_bias(rows={rows}, columns={columns}, bias={bias})");
    Instance::new(expr, Formula::masked(causal).logit(move |z, at| z + bias.at(&[at.h, at.row, at.j])))
}

/// A bias for each head and key, as for padding or the importance of keys.
#[derive(Clone, Debug, PartialEq, VariantParams)]
pub struct KeyBias {
    /// Number of keys with a bias. Later keys use the last one.
    #[require(keys >= 1)]
    pub keys: i32,
    /// Added to logits, in natural-log units.
    #[shape(qo_heads, keys)]
    pub bias: Tensor2<f16>,
}

#[attention_variant(name = "key_bias")]
impl AttentionVariant for KeyBias {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        self.bias[[at.qo_head, at.kv_pos]] + logit
    }
}

fn key_bias(shape: &Shape) -> Instance {
    let keys = shape.lens.iter().map(|(_, kv)| *kv).max().expect("requests") / 2 + 1;
    let bias = Table::waves(10, &[shape.qo_heads, keys]);
    let expr = format!("key_bias(keys={keys}, bias={bias})");
    Instance::new(expr, Formula::plain().logit(move |z, at| z + bias.at(&[at.h, at.j.min(keys - 1)])))
}

fn evoformer(shape: &Shape) -> Instance {
    let (bias, expr) = pairs(shape);
    let gate = Table::waves(6, &[shape.qo_tokens(), shape.qo_heads, shape.head_dim]);
    let expr = format!("{expr} + output_gate(gate={gate})");
    let formula =
        Formula::plain().logit(move |z, at| z + bias.at(&[at.b, at.h, at.row, at.j])).output(move |o, _, at| {
            for (d, o) in o.iter_mut().enumerate() {
                *o /= 1.0 + (-gate.at(&[at.qo_token, at.h, d as i64])).exp();
            }
        });
    Instance::new(expr, formula)
}

/// The positional half of MLA's logits, from parameter tensors: `logit + scale * q_rope . k_rope`.
///
/// All heads share one rotated key (DeepSeek-V2, arXiv 2405.04434).
#[derive(Clone, Debug, PartialEq, VariantParams)]
pub struct LatentRope {
    /// Width of a rotated row.
    #[require(rope_dim >= 1 && rope_dim <= 64)]
    pub rope_dim: i32,
    /// Scale of the product.
    #[require(scale.is_finite())]
    pub scale: f32,
    /// Rotated queries.
    #[shape(qo_tokens, qo_heads, rope_dim)]
    pub q_rope: Tensor3<bf16>,
    /// Rotated keys.
    #[shape(kv_tokens, rope_dim)]
    pub k_rope: Tensor2<bf16>,
}

#[attention_variant(name = "latent_rope")]
impl AttentionVariant for LatentRope {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        let mut sum: f32 = 0.0;
        for d in 0..self.rope_dim {
            sum += self.q_rope[[at.qo_token, at.qo_head, d]] * self.k_rope[[at.kv_token, d]];
        }
        logit + self.scale * sum
    }
}

fn latent_rope(shape: &Shape) -> Instance {
    let q = Table::waves(7, &[shape.qo_tokens(), shape.qo_heads, 4]);
    let k = Table::waves(8, &[shape.kv_tokens(), 4]);
    let expr = format!("causal + latent_rope(rope_dim=4, scale=0.25, q_rope={q}, k_rope={k})");
    let product = move |at: &At| (0..4).map(|d| q.at(&[at.qo_token, at.h, d]) * k.at(&[at.kv_token, d])).sum::<f64>();
    Instance::new(expr, Formula::masked(causal).logit(move |z, at| z + 0.25 * product(at)))
}
