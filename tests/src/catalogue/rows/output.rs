//! Rows 54 and 66 to 69: transforms of the output.

use attn_core::lang::{AttentionVariant, Row, RowIndex, RowState, Tensor3};
use attn_core::{VariantParams, attention_variant};

use super::table::Table;
use crate::catalogue::cpu_cases::short;
use crate::catalogue::{Entry, Instance};
use crate::reference::{Formula, Shape, causal};

pub(super) fn entries() -> Vec<Entry> {
    vec![
        Entry::new(54, "differential attention, second run", differential),
        Entry { cases: short, ..Entry::new(66, "output gate", output_gate) },
        Entry::new(66, "output gate of a head", head_gate),
        Entry::new(67, "norm of the output", output_norm),
        Entry { cases: short, ..Entry::new(68, "additive correction", correction) },
        Entry::new(69, "scale of a quantised output", output_scale),
    ]
}

fn differential(shape: &Shape) -> Instance {
    let weight = Table::waves(1, &[shape.head_dim]);
    let first = Table::waves(2, &[shape.qo_tokens(), shape.qo_heads, shape.head_dim]);
    let expr = format!("causal + differential(lambda=0.5, scale=0.75, weight={weight}, first={first})");
    let formula = Formula::masked(causal).output(move |o, _, at| {
        for (d, x) in (0..).zip(o.iter_mut()) {
            *x = first.at(&[at.qo_token, at.h, d]) - 0.5 * *x;
        }
        let root = (o.iter().map(|x| x * x).sum::<f64>() / o.len() as f64 + 1e-5).sqrt();
        (0..).zip(o.iter_mut()).for_each(|(d, x)| *x = 0.75 * *x / root * weight.at(&[d]));
    });
    Instance::new(expr, formula)
}

fn sigmoid(x: f64) -> f64 {
    x.exp() / (1.0 + x.exp())
}

fn output_gate(shape: &Shape) -> Instance {
    let gate = Table::waves(3, &[shape.qo_tokens(), shape.qo_heads, shape.head_dim]);
    let expr = format!("causal + output_gate(gate={gate})");
    let formula = Formula::masked(causal).output(move |o, _, at| {
        (0..).zip(o.iter_mut()).for_each(|(d, x)| *x *= sigmoid(gate.at(&[at.qo_token, at.h, d])));
    });
    Instance::new(expr, formula)
}

fn head_gate(shape: &Shape) -> Instance {
    let gate = Table::waves(4, &[shape.qo_tokens(), shape.qo_heads]);
    let expr = format!("causal + head_gate(gate={gate})");
    let formula = Formula::masked(causal)
        .output(move |o, _, at| o.iter_mut().for_each(|x| *x *= sigmoid(gate.at(&[at.qo_token, at.h]))));
    Instance::new(expr, formula)
}

fn output_norm(shape: &Shape) -> Instance {
    let weight = Table::waves(5, &[shape.head_dim]);
    let expr = format!("causal + output_norm(weight={weight}, eps=0.001, scale=0.25)");
    let formula = Formula::masked(causal).output(move |o, _, _| {
        let root = (o.iter().map(|x| x * x).sum::<f64>() / o.len() as f64 + f64::from(0.001f32)).sqrt();
        (0..).zip(o.iter_mut()).for_each(|(d, x)| *x = *x / root * weight.at(&[d]) * 0.25);
    });
    Instance::new(expr, formula)
}

/// A correction that is linear in the query: `o + scale * (q . matrix[qo_head])`.
///
/// The queries are a parameter tensor. Requested in flashinfer-ai/flashinfer#2765.
#[derive(Clone, Debug, PartialEq, VariantParams)]
pub struct Correction {
    /// Multiplies the correction.
    #[require(scale.is_finite())]
    pub scale: f32,
    /// The queries.
    #[shape(qo_tokens, qo_heads, head_dim)]
    pub q: Tensor3<f32>,
    /// A matrix for each query head.
    #[shape(qo_heads, head_dim, head_dim)]
    pub matrix: Tensor3<f32>,
}

#[attention_variant(name = "correction")]
impl AttentionVariant for Correction {
    fn output_transform<R: Row>(&self, o: &mut R, _state: RowState, at: RowIndex) {
        let dim = o.dim();
        o.map(|d, x| {
            let mut sum: f32 = 0.0;
            for e in 0..dim {
                sum += self.q[[at.qo_token, at.qo_head, e]] * self.matrix[[at.qo_head, e, d]];
            }
            x + self.scale * sum
        });
    }
}

fn correction(shape: &Shape) -> Instance {
    let q = Table::waves(6, &[shape.qo_tokens(), shape.qo_heads, shape.head_dim]);
    let matrix = Table::waves(7, &[shape.qo_heads, shape.head_dim, shape.head_dim]);
    let expr = format!("causal + correction(scale=0.125, q={q}, matrix={matrix})");
    let formula = Formula::masked(causal).output(move |o, _, at| {
        let dim = o.len() as i64;
        for (d, x) in (0..).zip(o.iter_mut()) {
            let product = |e: i64| q.at(&[at.qo_token, at.h, e]) * matrix.at(&[at.h, e, d]);
            *x += 0.125 * (0..dim).map(product).sum::<f64>();
        }
    });
    Instance::new(expr, formula)
}

fn output_scale(shape: &Shape) -> Instance {
    let scale = Table::new(&[shape.qo_heads], |i| 0.25 + i[0] as f64);
    let expr = format!("causal + output_scale(scale={scale})");
    let formula = Formula::masked(causal).output(move |o, _, at| o.iter_mut().for_each(|x| *x /= scale.at(&[at.h])));
    Instance::new(expr, formula)
}
