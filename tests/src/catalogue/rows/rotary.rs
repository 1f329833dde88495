//! Rows 56 to 61 and 63: rotary embeddings.

use super::{norm::normed, table::Table};
use crate::catalogue::cpu_cases::short;
use crate::catalogue::entry::list;
use crate::catalogue::{Entry, Instance};
use crate::reference::{At, Formula, Shape, causal};

pub(super) fn entries() -> Vec<Entry> {
    vec![
        Entry::new(56, "rope, half-split", rope),
        Entry::new(56, "rope, interleaved, of half a head", partial_rope),
        Entry::new(56, "rope by a table", rope_table),
        Entry::new(57, "rope of Llama 3.1", llama3),
        Entry::new(58, "YaRN", yarn),
        Entry::new(58, "YaRN of gpt-oss, with sinks", yarn_gpt_oss),
        Entry::new(61, "Llama 4, layer with rope", llama4_local),
        Entry::new(61, "Llama 4, layer without", llama4_global),
        Entry::new(61, "rope in some heads, ALiBi in the others", rope_or_alibi),
        Entry::new(63, "Qwen3: norm, then rope", qwen3),
        Entry { cases: short, ..Entry::new(66, "Qwen3-Next: norm, rope of a quarter, output gate", qwen3_next) },
    ]
}

/// A rotation of rows: the frequency of each pair, the layout of pairs, and a factor.
#[derive(Clone)]
pub(super) struct Rotation {
    frequencies: Vec<f64>,
    interleaved: bool,
    factor: f64,
}

impl Rotation {
    /// A half-split rotation of the first `values` elements. `frequency` maps `2 i / values` to the frequency of pair
    /// `i`.
    pub(super) fn new(values: i64, frequency: impl Fn(f64) -> f64) -> Self {
        let frequencies = (0..values / 2).map(|i| frequency(2.0 * i as f64 / values as f64)).collect();
        Rotation { frequencies, interleaved: false, factor: 1.0 }
    }

    /// Rotates a row.
    pub(super) fn apply(&self, row: &mut [f64], pos: i64) {
        let half = self.frequencies.len();
        for (i, frequency) in self.frequencies.iter().enumerate() {
            // the language defines angles as products in f32
            let angle = f64::from(pos as f32 * *frequency as f32);
            let (a, b) = if self.interleaved { (2 * i, 2 * i + 1) } else { (i, i + half) };
            let (x, y) = (row[a], row[b]);
            row[a] = (x * angle.cos() - y * angle.sin()) * self.factor;
            row[b] = (y * angle.cos() + x * angle.sin()) * self.factor;
        }
    }

    fn rotate_rows(self, formula: Formula) -> Formula {
        let keys = self.clone();
        formula.query(move |row, at| self.apply(row, at.i)).key(move |row, at| keys.apply(row, at.j))
    }
}

fn rope(shape: &Shape) -> Instance {
    let rotation = Rotation::new(shape.head_dim, |x| 10_000f64.powf(-x));
    Instance::new("causal + rope", rotation.rotate_rows(Formula::masked(causal)))
}

fn partial_rope(shape: &Shape) -> Instance {
    let rot = shape.head_dim / 2;
    let rotation = Rotation { interleaved: true, ..Rotation::new(rot, |x| 500f64.powf(-x) / 4.0) };
    let expr = format!("causal + rope(theta=500, scale=4, interleaved=true, rotary_dim={rot})");
    Instance::new(expr, rotation.rotate_rows(Formula::masked(causal)))
}

/// Positions run backwards, and every two tokens share one.
fn rope_table(shape: &Shape) -> Instance {
    let (dim, positions) = (shape.head_dim, shape.lens.iter().map(|(_, kv)| *kv).max().expect("requests"));
    let angle = |pos: i64, i: i64| -((pos / 2) as f64) * 100f64.powf(-(2 * i) as f64 / dim as f64);
    let cos = Table::new(&[positions, dim / 2], |i| angle(i[0], i[1]).cos());
    let sin = Table::new(&[positions, dim / 2], |i| angle(i[0], i[1]).sin());
    let expr = format!("causal + rope_table(positions={positions}, rotary_dim={dim}, cos={cos}, sin={sin})");
    let apply = move |row: &mut [f64], pos: i64| {
        for i in 0..dim / 2 {
            let (cos, sin) = (cos.at(&[pos, i]), sin.at(&[pos, i]));
            let (a, b) = (i as usize, (i + dim / 2) as usize);
            (row[a], row[b]) = (row[a] * cos - row[b] * sin, row[b] * cos + row[a] * sin);
        }
    };
    let keys = apply.clone();
    let formula = Formula::masked(causal).query(move |row, at| apply(row, at.i)).key(move |row, at| keys(row, at.j));
    Instance::new(expr, formula)
}

fn llama3(shape: &Shape) -> Instance {
    let frequency = |x: f64| {
        let frequency = 10_000f64.powf(-x);
        let wave = std::f64::consts::TAU / frequency;
        if wave < 64.0 / 4.0 {
            frequency
        } else if wave > 64.0 {
            frequency / 8.0
        } else {
            let smooth = (64.0 / wave - 1.0) / (4.0 - 1.0);
            (1.0 - smooth) * frequency / 8.0 + smooth * frequency
        }
    };
    let rotation = Rotation::new(shape.head_dim, frequency);
    Instance::new("causal + llama3_rope(theta=10000, original_len=64)", rotation.rotate_rows(Formula::masked(causal)))
}

/// YaRN interpolates between the pairs that rotate 32 times and once in `len` positions.
fn yarn_rotation(dim: i64, theta: f64, factor: f64, len: f64, round: bool) -> Rotation {
    let pair = |rotations: f64| dim as f64 / 2.0 * (len / (rotations * std::f64::consts::TAU)).ln() / theta.ln();
    let (low, high) = (pair(32.0), pair(1.0));
    let (low, high) = if round { (low.floor(), high.ceil()) } else { (low, high) };
    let (low, high) = (low.max(0.0), high.min(dim as f64 - 1.0));
    let frequency = |x: f64| {
        let slowed = ((x * dim as f64 / 2.0 - low) / (high - low)).clamp(0.0, 1.0);
        theta.powf(-x) * (1.0 - slowed + slowed / factor)
    };
    Rotation { factor: 0.1 * factor.ln() + 1.0, ..Rotation::new(dim, frequency) }
}

fn yarn(shape: &Shape) -> Instance {
    let rotation = yarn_rotation(shape.head_dim, 10_000.0, 4.0, 512.0, true);
    Instance::new("causal + yarn(factor=4, original_len=512)", rotation.rotate_rows(Formula::masked(causal)))
}

fn yarn_gpt_oss(shape: &Shape) -> Instance {
    let logits = Table::waves(1, &[shape.qo_heads]);
    let rope = "yarn(theta=150000, factor=32, original_len=4096, truncate=false)";
    let reach = shape.reach(11);
    let expr = format!("causal + sliding_window(window={reach}) + {rope} + sink(logits={logits})");
    let rotation = yarn_rotation(shape.head_dim, 150_000.0, 32.0, 4096.0, false);
    let window = move |at: &At| causal(at) && at.i - at.j < reach;
    Instance::new(expr, rotation.rotate_rows(Formula::masked(window).sink(move |at| logits.at(&[at.h]))))
}

fn llama4_local(shape: &Shape) -> Instance {
    let rotation = Rotation { interleaved: true, ..Rotation::new(shape.head_dim, |x| 500_000f64.powf(-x)) };
    let keys = rotation.clone();
    let keys_of_chunk = shape.reach(16);
    let chunk = move |at: &At| causal(at) && at.i / keys_of_chunk == at.j / keys_of_chunk;
    let formula = Formula::masked(chunk)
        .query(move |row, at| {
            rotation.apply(row, at.i);
            normed(row, 1e-5, |_| 1.0);
        })
        .key(move |row, at| {
            keys.apply(row, at.j);
            normed(row, 1e-5, |_| 1.0);
        });
    let rope = "rope(theta=500000, interleaved=true)";
    Instance::new(format!("causal + chunked(chunk={keys_of_chunk}) + {rope} + qk_norm(eps=1e-5)"), formula)
}

fn llama4_global(_: &Shape) -> Instance {
    let factor = |i: i64| (((i + 1) as f64 / 16.0).floor() + 1.0).ln() * 0.1 + 1.0;
    let formula = Formula::masked(causal).logit(move |z, at| z * factor(at.i));
    Instance::new("causal + temperature(floor_scale=16)", formula)
}

/// Alternates by KV head, because the query heads of a KV head read the same keys.
fn rope_or_alibi(shape: &Shape) -> Instance {
    let group = shape.qo_heads / shape.kv_heads;
    let rotates = |g: i64| g % 2 == 0;
    let heads = list(&(0..shape.qo_heads).map(|h| i64::from(!rotates(h / group))).collect::<Vec<_>>());
    let slopes: Vec<f64> = (0..shape.qo_heads).map(|h| 0.125 * (h + 1) as f64).collect();
    let expr = format!("causal + per_head(heads={heads}, rope, alibi(slopes={}))", list(&slopes));
    let rotation = Rotation::new(shape.head_dim, |x| 10_000f64.powf(-x));
    let keys = rotation.clone();
    let formula = Formula::masked(causal)
        .query(move |row, at| {
            if rotates(at.g) {
                rotation.apply(row, at.i);
            }
        })
        .key(move |row, at| {
            if rotates(at.g) {
                keys.apply(row, at.j);
            }
        })
        .logit(move |z, at| if rotates(at.g) { z } else { z + slopes[at.h as usize] * (at.j - at.i) as f64 });
    Instance::new(expr, formula)
}

fn qwen3(shape: &Shape) -> Instance {
    let [q, k] = [2, 3].map(|seed| Table::waves(seed, &[shape.head_dim]));
    let expr = format!("causal + qk_norm(q_weight={q}, k_weight={k}) + rope(theta=1000000)");
    let rotation = Rotation::new(shape.head_dim, |x| 1e6f64.powf(-x));
    let keys = rotation.clone();
    let formula = Formula::masked(causal)
        .query(move |row, at| {
            normed(row, 1e-6, |d| q.at(&[d]));
            rotation.apply(row, at.i);
        })
        .key(move |row, at| {
            normed(row, 1e-6, |d| k.at(&[d]));
            keys.apply(row, at.j);
        });
    Instance::new(expr, formula)
}

/// Norm weights count from 1, and rope turns the first quarter of a head.
fn qwen3_next(shape: &Shape) -> Instance {
    let [q, k] = [4, 5].map(|seed| Table::waves(seed, &[shape.head_dim]));
    let gate = Table::waves(6, &[shape.qo_tokens(), shape.qo_heads, shape.head_dim]);
    let dim = shape.head_dim / 4;
    let expr = format!(
        "causal + qk_norm(q_weight={q}, k_weight={k}, offset=1) + rope(theta=10000000, rotary_dim={dim}) + \
         output_gate(gate={gate})"
    );
    let rotation = Rotation::new(dim, |x| 1e7f64.powf(-x));
    let keys = rotation.clone();
    let formula = Formula::masked(causal)
        .query(move |row, at| {
            normed(row, 1e-6, |d| 1.0 + q.at(&[d]));
            rotation.apply(row, at.i);
        })
        .key(move |row, at| {
            normed(row, 1e-6, |d| 1.0 + k.at(&[d]));
            keys.apply(row, at.j);
        })
        .output(move |o, _, at| {
            let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
            (0..).zip(o.iter_mut()).for_each(|(d, x)| *x *= sigmoid(gate.at(&[at.qo_token, at.h, d])));
        });
    Instance::new(expr, formula)
}
