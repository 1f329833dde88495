//! Rows 37 and 43 to 47: weights and denominators other than those of softmax, and virtual keys.

use attn_core::lang::{AttentionVariant, LogitIndex, Normalizer};
use attn_core::{VariantParams, attention_variant};

use super::table::Table;
use crate::catalogue::entry::list;
use crate::catalogue::{Entry, Instance};
use crate::reference::{At, Formula, Shape, Weight, causal};

pub(super) fn entries() -> Vec<Entry> {
    vec![
        // sums of weights of both signs cancel
        Entry { tolerance: 1e-3, ..Entry::new(37, "retention", retention) },
        Entry::new(43, "dropout", dropout),
        Entry::new(44, "learnt sink", sink),
        Entry::new(45, "softmax-1", softmax_1),
        Entry::new(45, "softmax-n and a window", softmax_n),
        Entry::new(45, "softpick", softpick),
        Entry::new(45, "softpick, in some heads over a window", softpick_per_head),
        Entry::new(46, "sigmoid", sigmoid),
        Entry::new(47, "ReLU", relu),
        Entry::new(47, "squared ReLU", squared_relu),
        Entry { tolerance: 1e-3, ..Entry::new(47, "GELU", gelu) },
        Entry { tolerance: 1e-3, ..Entry::new(47, "HSTU: SiLU over the padded length", silu) },
        Entry { tolerance: 1e-3, ..Entry::new(47, "HSTU: SiLU and a relative bias", silu_and_bias) },
    ]
}

fn retention(_: &Shape) -> Instance {
    let decay = |h: i64| 1.0 - 2f64.powi(-5 - h as i32);
    let formula = Formula::masked(causal)
        .weight(false, move |z, at| Weight::both(z * decay(at.h).powi((at.i - at.j) as i32)))
        .output(|o, sum, _| o.iter_mut().for_each(|x| *x /= sum.weights.abs().max(1.0)));
    Instance::new("causal + retention", formula)
}

/// Philox-4x32-10 (Salmon et al., SC 2011): the first word.
fn philox([mut a, mut b]: [u32; 2], i: u32, j: u32) -> u32 {
    let mut counter = [i, j, 0, 0];
    for _ in 0..10 {
        let wide = [0xd251_1f53u64 * u64::from(counter[0]), 0xcd9e_8d57u64 * u64::from(counter[2])];
        let [high, low] = [wide.map(|x| (x >> 32) as u32), wide.map(|x| x as u32)];
        counter = [high[1] ^ counter[1] ^ a, low[1], high[0] ^ counter[3] ^ b, low[0]];
        (a, b) = (a.wrapping_add(0x9e37_79b9), b.wrapping_add(0xbb67_ae85));
    }
    counter[0]
}

fn dropout(_: &Shape) -> Instance {
    let dropped = |at: &At| {
        let bits = philox([99, ((at.b << 16) ^ at.h) as u32], at.i as u32, at.j as u32);
        f64::from(bits >> 8) / f64::from(1 << 24) < 0.3
    };
    let rate = f64::from(0.3f32);
    let p = move |z: f64, at: &At| if dropped(at) { 0.0 } else { z.exp() / (1.0 - rate) };
    let weight = move |z: f64, at: &At| Weight { p: p(z, at), addend: z.exp() };
    Instance::new("causal + dropout(rate=0.3, seed=99)", Formula::masked(causal).weight(true, weight))
}

fn sink(shape: &Shape) -> Instance {
    let logits = Table::waves(1, &[shape.qo_heads]);
    Instance::new(format!("causal + sink(logits={logits})"), Formula::masked(causal).sink(move |at| logits.at(&[at.h])))
}

fn softmax_1(_: &Shape) -> Instance {
    Instance::new("causal + softmax_n", Formula::masked(causal).sink(|_| 0.0))
}

fn softmax_n(shape: &Shape) -> Instance {
    let window = shape.reach(6);
    let near = move |at: &At| at.i - at.j < window;
    let expr = format!("sliding_window(window={window}) + softmax_n(n=2.5)");
    Instance::new(expr, Formula::masked(near).sink(|_| 2.5f64.ln()))
}

fn softpick(_: &Shape) -> Instance {
    let weight = |z: f64, _: &At| Weight { p: z.exp_m1().max(0.0), addend: z.exp_m1().abs() };
    Instance::new("causal + softpick", Formula::masked(causal).weight(true, weight))
}

fn softpick_per_head(shape: &Shape) -> Instance {
    let window = shape.reach(9);
    let is_global = |h: i64| h % 2 == 0;
    let heads = list(&(0..shape.qo_heads).map(|h| i64::from(!is_global(h))).collect::<Vec<_>>());
    let mask = move |at: &At| causal(at) && (is_global(at.h) || at.i - at.j < window);
    let weight = |z: f64, _: &At| Weight { p: z.exp_m1().max(0.0), addend: z.exp_m1().abs() };
    let expr = format!("causal + per_head(heads={heads}, softpick, softpick + sliding_window(window={window}))");
    Instance::new(expr, Formula::masked(mask).weight(true, weight))
}

fn sigmoid(_: &Shape) -> Instance {
    let weight = |z: f64, _: &At| Weight::both(1.0 / (1.0 + (2.0 - z).exp()));
    Instance::new("causal + sigmoid(bias=-2)", Formula::masked(causal).weight(false, weight))
}

fn relu(_: &Shape) -> Instance {
    let weight = |z: f64, at: &At| Weight::both(z.max(0.0) / at.kv_len as f64);
    Instance::new("causal + relu", Formula::masked(causal).weight(false, weight))
}

fn squared_relu(_: &Shape) -> Instance {
    let weight = |z: f64, _: &At| Weight::both(if z > 0.0 { z * z } else { 0.0 });
    Instance::new("causal + relu(squared=true, mean=false)", Formula::masked(causal).weight(false, weight))
}

/// GELU attention: weights are `0.5 z (1 + tanh(sqrt(2 / pi) (z + 0.044715 z^3)))` over the number of keys.
///
/// The function: arXiv 1606.08415.
#[derive(Clone, Copy, Debug, PartialEq, VariantParams)]
pub struct Gelu;

#[attention_variant(name = "gelu")]
impl AttentionVariant for Gelu {
    const NORMALIZER: Normalizer = Normalizer::Plain { divide: false };

    fn weight(&self, logit: f32, _row_max: f32, at: LogitIndex) -> f32 {
        let inner = 0.797_884_6 * (logit + 0.044_715 * logit * logit * logit);
        0.5 * logit * (1.0 + inner.tanh()) / at.kv_len as f32
    }
}

fn gelu(_: &Shape) -> Instance {
    let inner = |z: f64| (2.0 / std::f64::consts::PI).sqrt() * (z + 0.044_715 * z.powi(3));
    let weight = move |z: f64, at: &At| Weight::both(0.5 * z * (1.0 + inner(z).tanh()) / at.kv_len as f64);
    Instance::new("causal + gelu", Formula::masked(causal).weight(false, weight))
}

fn silu(_: &Shape) -> Instance {
    let weight = |z: f64, _: &At| Weight::both(z / (1.0 + (-z).exp()) / 96.0);
    Instance::new("causal + silu(n=96)", Formula::masked(causal).weight(false, weight))
}

fn silu_and_bias(shape: &Shape) -> Instance {
    let table = Table::waves(2, &[shape.qo_heads, 41]);
    let expr = format!("causal + relative_bias(max_distance=20, table={table}) + silu");
    let weight = |z: f64, at: &At| Weight::both(z / (1.0 + (-z).exp()) / at.kv_len as f64);
    let bias = move |z: f64, at: &At| z + table.at(&[at.h, (at.j - at.i).clamp(-20, 20) + 20]);
    Instance::new(expr, Formula::masked(causal).logit(bias).weight(false, weight))
}

#[cfg(test)]
mod tests {
    /// The published test vector for a zero counter and a zero key.
    #[test]
    fn philox_matches_its_published_test_vector() {
        assert_eq!(super::philox([0, 0], 0, 0), 0x6627_e8d5);
    }
}
