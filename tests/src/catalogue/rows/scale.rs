//! Rows 38 to 42: scales by position, scales of quantised elements, and stores of logits.

use attn_core::lang::{AttentionVariant, LogitIndex, Tensor3};
use attn_core::{VariantParams, attention_variant};

use super::table::Table;
use crate::catalogue::cpu_cases::short;
use crate::catalogue::{Entry, Instance};
use crate::reference::{Formula, Shape, causal};

pub(super) fn entries() -> Vec<Entry> {
    vec![
        Entry::new(38, "scalable softmax", scalable_softmax),
        Entry::new(38, "log-n attention of Qwen", log_n),
        Entry::new(39, "temperature of Llama 4", temperature),
        Entry::new(41, "scales per head", head_scales),
        Entry::new(41, "scales per token", token_scales),
        Entry::new(41, "scales per block", block_scales),
        Entry { cases: short, ..Entry::new(42, "logits dump", logits_dump) },
        Entry::new(42, "max logit for QK-clip", max_logit),
    ]
}

fn scalable_softmax(shape: &Shape) -> Instance {
    let scale = Table::waves(1, &[shape.qo_heads]);
    let expr = format!("causal + log_scale(scale={scale})");
    Instance::new(expr, Formula::masked(causal).logit(move |z, at| z * scale.at(&[at.h]) * ((at.i + 1) as f64).ln()))
}

fn log_n(_: &Shape) -> Instance {
    let factor = |i: i64| if i + 1 > 10 { ((i + 1) as f64).ln() / 10f64.ln() } else { 1.0 };
    Instance::new("causal + log_scale(min_len=10)", Formula::masked(causal).logit(move |z, at| z * factor(at.i)))
}

fn temperature(_: &Shape) -> Instance {
    let factor = |i: i64| (((i + 1) as f64 / 7.0).floor() + 1.0).ln() * 0.5 + 1.0;
    let expr = "causal + temperature(floor_scale=7, attn_scale=0.5)";
    Instance::new(expr, Formula::masked(causal).logit(move |z, at| z * factor(at.i)))
}

fn head_scales(shape: &Shape) -> Instance {
    let q = Table::waves(2, &[shape.qo_heads]);
    let [k, v] = [3, 4].map(|seed| Table::waves(seed, &[shape.kv_heads]));
    let expr = format!("causal + head_scales(q={q}, k={k}, v={v})");
    let formula = Formula::masked(causal)
        .logit(move |z, at| z * q.at(&[at.h]) * k.at(&[at.g]))
        .value(move |row, at| row.iter_mut().for_each(|x| *x *= v.at(&[at.g])));
    Instance::new(expr, formula)
}

fn token_scales(shape: &Shape) -> Instance {
    let [k, v] = [5, 6].map(|seed| Table::waves(seed, &[shape.kv_tokens(), shape.kv_heads]));
    let expr = format!("causal + token_scales(k={k}, v={v})");
    let formula = Formula::masked(causal)
        .key(move |row, at| row.iter_mut().for_each(|x| *x *= k.at(&[at.kv_token, at.g])))
        .value(move |row, at| row.iter_mut().for_each(|x| *x *= v.at(&[at.kv_token, at.g])));
    Instance::new(expr, formula)
}

/// Scales per block of quantised queries and keys, as in SageAttention (arXiv 2410.02367).
///
/// `logit * q[batch, qo_head, qo_row / q_block] * k[batch, kv_head, kv_pos / k_block]`.
#[derive(Clone, Debug, PartialEq, VariantParams)]
pub struct BlockScales {
    /// Number of queries of a block.
    #[require(q_block >= 1)]
    pub q_block: i32,
    /// Number of keys of a block.
    #[require(k_block >= 1)]
    pub k_block: i32,
    /// Number of query blocks of the longest request.
    #[require(q_blocks >= 1)]
    pub q_blocks: i32,
    /// Number of key blocks of the longest request.
    #[require(k_blocks >= 1)]
    pub k_blocks: i32,
    /// Scales of queries.
    #[shape(batch, qo_heads, q_blocks)]
    pub q: Tensor3<f32>,
    /// Scales of keys.
    #[shape(batch, kv_heads, k_blocks)]
    pub k: Tensor3<f32>,
}

#[attention_variant(name = "block_scales")]
impl AttentionVariant for BlockScales {
    fn logits_transform(&self, logit: f32, at: LogitIndex) -> f32 {
        let q = self.q[[at.batch, at.qo_head, at.qo_row / self.q_block]];
        logit * (q * self.k[[at.batch, at.kv_head, at.kv_pos / self.k_block]])
    }
}

fn block_scales(shape: &Shape) -> Instance {
    let (qo, kv) = shape.lens.iter().fold((1, 1), |(a, b), &(qo, kv)| (a.max(qo), b.max(kv)));
    let (q_blocks, k_blocks) = (qo / 4 + 1, kv / 8 + 1);
    let q = Table::waves(7, &[shape.batch(), shape.qo_heads, q_blocks]);
    let k = Table::waves(8, &[shape.batch(), shape.kv_heads, k_blocks]);
    let sizes = format!("q_block=4, k_block=8, q_blocks={q_blocks}, k_blocks={k_blocks}");
    let expr = format!("causal + block_scales({sizes}, q={q}, k={k})");
    let scale = Formula::masked(causal)
        .query(move |row, at| row.iter_mut().for_each(|x| *x *= q.at(&[at.b, at.h, at.row / 4])))
        .key(move |row, at| row.iter_mut().for_each(|x| *x *= k.at(&[at.b, at.g, at.j / 8])));
    Instance::new(expr, scale)
}

fn logits_dump(shape: &Shape) -> Instance {
    let columns = shape.lens.iter().map(|(_, kv)| *kv).max().expect("requests");
    let zeros = Table::new(&[shape.qo_tokens(), shape.qo_heads, columns], |_| 0.0);
    Instance::new(format!("causal + logits_dump(columns={columns}, logits={zeros})"), Formula::masked(causal))
}

fn max_logit(shape: &Shape) -> Instance {
    let start = Table::new(&[shape.qo_heads], |_| -1e30);
    Instance::new(format!("causal + max_logit(max={start})"), Formula::masked(causal))
}
