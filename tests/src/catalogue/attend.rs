//! Attention by its definition, in f64: a loop over all queries and all keys.

use super::Shape;
use super::formula::{At, Formula, Sum};

/// Logical tensors of shape (tokens, heads, head_dim), independent of the memory layout.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Tensors {
    pub q: Vec<f64>,
    pub k: Vec<f64>,
    pub v: Vec<f64>,
}

/// Output (tokens, heads, head_dim) and log-sum-exp (tokens, heads).
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct Attended {
    pub o: Vec<f64>,
    pub lse: Vec<f64>,
}

/// One key and its value: the stored key, and both after their transforms.
struct Key<'a> {
    at: At,
    raw: &'a [f64],
    key: Vec<f64>,
    value: Vec<f64>,
}

/// Computes a formula over a batch.
#[must_use]
pub fn attend(formula: &Formula, shape: &Shape, tensors: &Tensors, scale: f64) -> Attended {
    let (dim, group) = (shape.head_dim as usize, shape.qo_heads / shape.kv_heads);
    let mut out = Attended { o: Vec::new(), lse: Vec::new() };
    let (mut first_query, mut first_key) = (0, 0);
    for (b, &(qo_len, kv_len)) in shape.lens.iter().enumerate() {
        let request = At { b: b as i64, qo_len, kv_len, ..At::default() };
        let keys_of = |g: i64| -> Vec<Key<'_>> {
            let row = |x: &'_ [f64], token: i64| (token * shape.kv_heads + g) as usize * dim..x.len();
            let key = |j: i64| {
                let at = At { g, j, kv_token: first_key + j, ..request };
                let raw = &tensors.k[row(&tensors.k, at.kv_token)][..dim];
                let (mut key, mut value) = (raw.to_vec(), tensors.v[row(&tensors.v, at.kv_token)][..dim].to_vec());
                (formula.key)(&mut key, &at);
                (formula.value)(&mut value, &at);
                Key { at, raw, key, value }
            };
            (0..kv_len).map(key).collect()
        };
        let keys: Vec<Vec<Key<'_>>> = (0..shape.kv_heads).map(keys_of).collect();
        for row in 0..qo_len {
            for h in 0..shape.qo_heads {
                let qo_token = first_query + row;
                let at = At { row, i: row + kv_len - qo_len, qo_token, h, g: h / group, ..request };
                let q = &tensors.q[(qo_token * shape.qo_heads + h) as usize * dim..][..dim];
                let (o, lse) = attend_row(formula, q, &keys[at.g as usize], at, scale);
                out.o.extend(o);
                out.lse.push(lse);
            }
        }
        (first_query, first_key) = (first_query + qo_len, first_key + kv_len);
    }
    out
}

fn attend_row(formula: &Formula, raw: &[f64], keys: &[Key<'_>], at: At, scale: f64) -> (Vec<f64>, f64) {
    let mut q = raw.to_vec();
    (formula.query)(&mut q, &at);
    let mut logits = Vec::new();
    for key in keys {
        let at = At { j: key.at.j, kv_token: key.at.kv_token, ..at };
        if (formula.mask)(&at) {
            let score = match &formula.score {
                Some(score) => score(raw, key.raw, &at),
                None => q.iter().zip(&key.key).map(|(a, b)| a * b).sum(),
            };
            logits.push(((formula.logit)(score * scale, &at), key, at));
        }
    }
    let sink = (formula.sink)(&at);
    let max = logits.iter().map(|(z, ..)| *z).fold(sink, f64::max);
    // softmax subtracts its maximum against overflow; custom weights are taken as they are
    let subtracted = if formula.weight.is_none() && max > f64::NEG_INFINITY { max } else { 0.0 };
    let weight = |z: f64, at: &At| match &formula.weight {
        Some((weight, _)) => weight(z, at),
        None => ((z - subtracted).exp(), (z - subtracted).exp()),
    };
    let mut sum = if sink > f64::NEG_INFINITY { weight(sink, &at).1 } else { 0.0 };
    let mut o = vec![0.0; q.len()];
    for (z, key, at) in &logits {
        let (p, addend) = weight(*z, at);
        sum += addend;
        o.iter_mut().zip(&key.value).for_each(|(o, v)| *o += p * v);
    }
    if sum != 0.0 && formula.weight.as_ref().is_none_or(|(_, divide)| *divide) {
        o.iter_mut().for_each(|o| *o /= sum);
    }
    let lse = if sum > 0.0 { sum.ln() + subtracted } else { f64::NEG_INFINITY };
    (formula.output)(&mut o, Sum { weights: sum * subtracted.exp(), lse }, &at);
    (o, lse)
}
