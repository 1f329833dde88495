//! Rows 62, 64 and 65: transforms of queries, keys and values, by norms and dequantisation.

use attn_core::lang::{AttentionVariant, KvIndex, Row, Tensor3};
use attn_core::{VariantParams, attention_variant};
use half::bf16;

use super::table::Table;
use crate::catalogue::entry::list;
use crate::catalogue::{Entry, Instance};
use crate::reference::{Formula, Shape, causal};

pub(super) fn entries() -> Vec<Entry> {
    vec![
        Entry::new(62, "QK norm", qk_norm),
        Entry::new(62, "QK norm of Gemma 3", gemma_norm),
        Entry::new(62, "cosine attention of Swin v2", cosine),
        Entry::new(64, "key smoothing", k_smoothing),
        Entry::new(64, "keys and values in groups of 4 bits", group_dequant),
        Entry::new(65, "value norm", value_norm),
        Entry::new(65, "norm of values in some heads, of outputs in the others", norm_per_head),
    ]
}

/// `x * weight / sqrt(mean(x^2) + eps)`.
pub(super) fn normed(row: &mut [f64], eps: f64, weight: impl Fn(i64) -> f64) {
    let squares: f64 = row.iter().map(|x| x * x).sum();
    let root = (squares / row.len() as f64 + eps).sqrt();
    (0..).zip(row.iter_mut()).for_each(|(d, x)| *x = *x / root * weight(d));
}

fn qk_norm(shape: &Shape) -> Instance {
    let [q, k] = [1, 2].map(|seed| Table::waves(seed, &[shape.head_dim]));
    let expr = format!("qk_norm(q_weight={q}, k_weight={k}, eps=0.25)");
    let formula = Formula::plain()
        .query(move |row, _| normed(row, 0.25, |d| q.at(&[d])))
        .key(move |row, _| normed(row, 0.25, |d| k.at(&[d])));
    Instance::new(expr, formula)
}

fn gemma_norm(shape: &Shape) -> Instance {
    let [q, k] = [3, 4].map(|seed| Table::waves(seed, &[shape.head_dim]));
    let expr = format!("causal + qk_norm(q_weight={q}, k_weight={k}, offset=1)");
    let formula = Formula::masked(causal)
        .query(move |row, _| normed(row, 1e-6, |d| 1.0 + q.at(&[d])))
        .key(move |row, _| normed(row, 1e-6, |d| 1.0 + k.at(&[d])));
    Instance::new(expr, formula)
}

fn cosine(shape: &Shape) -> Instance {
    let scale = Table::waves(5, &[shape.qo_heads]);
    let expr = format!("cosine(log_scale={scale}, max_scale=5)");
    let norm = |row: &[f64]| row.iter().map(|x| x * x).sum::<f64>().sqrt();
    let score = move |q: &[f64], k: &[f64], h: i64| {
        let product: f64 = q.iter().zip(k).map(|(a, b)| a * b).sum();
        product / (norm(q) * norm(k)) * scale.at(&[h]).exp().min(5.0)
    };
    Instance::new(expr, Formula::plain().score(move |q, k, at| score(q, k, at.h)))
}

fn k_smoothing(shape: &Shape) -> Instance {
    let mean = Table::waves(6, &[shape.batch(), shape.kv_heads, shape.head_dim]);
    let expr = format!("causal + k_smoothing(mean={mean})");
    let formula = Formula::masked(causal).key(move |row, at| {
        (0..).zip(row.iter_mut()).for_each(|(d, x)| *x -= mean.at(&[at.b, at.g, d]));
    });
    Instance::new(expr, formula)
}

/// Dequantisation in groups along the head dim, as for caches of few bits (KIVI, arXiv 2402.02750).
///
/// An element is `(x - zero[kv_head, d / group]) * scale[kv_head, d / group]`.
#[derive(Clone, Debug, PartialEq, VariantParams)]
pub struct GroupDequant {
    /// Number of values of a group.
    #[require(group >= 1 && group <= head_dim)]
    pub group: i32,
    /// Zero points of keys, scales of keys, zero points of values, scales of values.
    #[shape(4, kv_heads, head_dim / group)]
    pub tables: Tensor3<bf16>,
}

#[attention_variant(name = "group_dequant")]
impl AttentionVariant for GroupDequant {
    fn key_transform<R: Row>(&self, k: &mut R, at: KvIndex) {
        k.map(|d, x| {
            let group = d / self.group;
            (x - self.tables[[0, at.kv_head, group]]) * self.tables[[1, at.kv_head, group]]
        });
    }

    fn value_transform<R: Row>(&self, v: &mut R, at: KvIndex) {
        v.map(|d, x| {
            let group = d / self.group;
            (x - self.tables[[2, at.kv_head, group]]) * self.tables[[3, at.kv_head, group]]
        });
    }
}

fn group_dequant(shape: &Shape) -> Instance {
    let tables = Table::waves(7, &[4, shape.kv_heads, shape.head_dim / 4]);
    let expr = format!("causal + group_dequant(group=4, tables={tables})");
    let dequant = move |row: &mut [f64], first: i64, g: i64| {
        for (d, x) in (0..).zip(row.iter_mut()) {
            *x = (*x - tables.at(&[first, g, d / 4])) * tables.at(&[first + 1, g, d / 4]);
        }
    };
    let values = dequant.clone();
    let formula =
        Formula::masked(causal).key(move |row, at| dequant(row, 0, at.g)).value(move |row, at| values(row, 2, at.g));
    Instance::new(expr, formula)
}

fn value_norm(shape: &Shape) -> Instance {
    let weight = Table::waves(8, &[shape.head_dim]);
    let expr = format!("causal + value_norm(weight={weight}, eps=0.01)");
    let formula = Formula::masked(causal).value(move |row, _| normed(row, f64::from(0.01f32), |d| weight.at(&[d])));
    Instance::new(expr, formula)
}

/// Alternates by KV head, because the query heads of a KV head read the same values.
fn norm_per_head(shape: &Shape) -> Instance {
    let group = shape.qo_heads / shape.kv_heads;
    let of_values = |g: i64| g % 2 == 0;
    let heads = list(&(0..shape.qo_heads).map(|h| i64::from(!of_values(h / group))).collect::<Vec<_>>());
    let [v, o] = [9, 10].map(|seed| Table::waves(seed, &[shape.head_dim]));
    let (values, outputs) = (format!("value_norm(weight={v}, eps=0.01)"), format!("output_norm(weight={o}, eps=0.01)"));
    let eps = f64::from(0.01f32);
    let formula = Formula::masked(causal)
        .value(move |row, at| {
            if of_values(at.g) {
                normed(row, eps, |d| v.at(&[d]));
            }
        })
        .output(move |row, _, at| {
            if !of_values(at.g) {
                normed(row, eps, |d| o.at(&[d]));
            }
        });
    Instance::new(format!("causal + per_head(heads={heads}, {values}, {outputs})"), formula)
}
